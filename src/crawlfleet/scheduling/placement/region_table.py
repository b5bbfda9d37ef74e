"""Table of the locations of regions: countries, big cities, and the regions of the usual clouds by their city.

Names are in small letters with hyphens; coordinates are degrees north and east, to about ten kilometres, which is
plenty to tell what is near. Countries stand at their capital or where most of their machines are.
"""

from __future__ import annotations

COUNTRIES = """
ae 24.5 54.4|af 34.5 69.2|al 41.3 19.8|am 40.2 44.5|ao -8.8 13.2|ar -34.6 -58.4|at 48.2 16.4|au -33.9 151.2
az 40.4 49.9|ba 43.9 18.4|bd 23.8 90.4|be 50.9 4.4|bg 42.7 23.3|bh 26.2 50.6|bo -16.5 -68.1|br -23.6 -46.6
bw -24.7 25.9|by 53.9 27.6|ca 43.7 -79.4|cd -4.3 15.3|ch 47.4 8.5|ci 5.3 -4.0|cl -33.4 -70.7|cm 3.9 11.5
cn 39.9 116.4|co 4.7 -74.1|cr 9.9 -84.1|cu 23.1 -82.4|cy 35.2 33.4|cz 50.1 14.4|de 50.1 8.7|dk 55.7 12.6
do 18.5 -69.9|dz 36.8 3.1|ec -0.2 -78.5|ee 59.4 24.8|eg 30.0 31.2|es 40.4 -3.7|et 9.0 38.7|fi 60.2 24.9
fr 48.9 2.4|gb 51.5 -0.1|ge 41.7 44.8|gh 5.6 -0.2|gr 38.0 23.7|gt 14.6 -90.5|hk 22.3 114.2|hn 14.1 -87.2
hr 45.8 16.0|hu 47.5 19.0|id -6.2 106.8|ie 53.3 -6.3|il 32.1 34.8|in 19.1 72.9|iq 33.3 44.4|ir 35.7 51.4
is 64.1 -21.9|it 45.5 9.2|jm 18.0 -76.8|jo 32.0 35.9|jp 35.7 139.7|ke -1.3 36.8|kg 42.9 74.6|kh 11.6 104.9
kr 37.6 127.0|kw 29.4 48.0|kz 43.2 76.9|la 18.0 102.6|lb 33.9 35.5|lk 6.9 79.9|lt 54.7 25.3|lu 49.6 6.1
lv 56.9 24.1|ly 32.9 13.2|ma 33.6 -7.6|md 47.0 28.9|me 42.4 19.3|mg -18.9 47.5|mk 42.0 21.4|mm 16.8 96.2
mn 47.9 106.9|mo 22.2 113.5|mt 35.9 14.5|mu -20.2 57.5|mx 19.4 -99.1|my 3.1 101.7|mz -26.0 32.6|na -22.6 17.1
ng 6.5 3.4|ni 12.1 -86.3|nl 52.4 4.9|no 59.9 10.8|np 27.7 85.3|nz -36.8 174.8|om 23.6 58.4|pa 9.0 -79.5
pe -12.0 -77.0|ph 14.6 121.0|pk 24.9 67.0|pl 52.2 21.0|pr 18.5 -66.1|pt 38.7 -9.1|py -25.3 -57.6|qa 25.3 51.5
ro 44.4 26.1|rs 44.8 20.5|ru 55.8 37.6|rw -1.9 30.1|sa 24.7 46.7|sd 15.5 32.6|se 59.3 18.1|sg 1.4 103.8
si 46.1 14.5|sk 48.1 17.1|sn 14.7 -17.5|sv 13.7 -89.2|sy 33.5 36.3|th 13.8 100.5|tn 36.8 10.2|tr 41.0 29.0
tw 25.0 121.5|tz -6.8 39.3|ua 50.5 30.5|ug 0.3 32.6|us 39.0 -77.5|uy -34.9 -56.2|uz 41.3 69.2|ve 10.5 -66.9
vn 21.0 105.9|ye 15.4 44.2|za -26.2 28.0|zm -15.4 28.3|zw -17.8 31.0
"""
"""ISO 3166 codes, each with latitude and longitude."""

CITIES = """
abu-dhabi ae 24.5 54.4|accra gh 5.6 -0.2|addis-ababa et 9.0 38.7|amsterdam nl 52.4 4.9|ankara tr 39.9 32.9
ashburn us 39.0 -77.5|athens gr 38.0 23.7|atlanta us 33.7 -84.4|auckland nz -36.8 174.8|bahrain bh 26.2 50.6
bangkok th 13.8 100.5|barcelona es 41.4 2.2|beijing cn 39.9 116.4|belgrade rs 44.8 20.5|bengaluru in 13.0 77.6
berlin de 52.5 13.4|bogota co 4.7 -74.1|boston us 42.4 -71.1|bratislava sk 48.1 17.1|brussels be 50.9 4.4
bucharest ro 44.4 26.1|budapest hu 47.5 19.0|buenos-aires ar -34.6 -58.4|busan kr 35.2 129.1|cairo eg 30.0 31.2
calgary ca 51.0 -114.1|canberra au -35.3 149.1|cape-town za -33.9 18.4|casablanca ma 33.6 -7.6
changchun cn 43.9 125.3|changsha cn 28.2 113.0|charleston us 33.2 -80.0|chengdu cn 30.7 104.1|chennai in 13.1 80.3
chicago us 41.9 -87.6|chongqing cn 29.6 106.6|columbus us 40.0 -83.0|copenhagen dk 55.7 12.6
council-bluffs us 41.3 -95.9
dakar sn 14.7 -17.5|dalian cn 38.9 121.6|dallas us 32.8 -96.8|dammam sa 26.4 50.1|delhi in 28.6 77.2
denver us 39.7 -105.0|detroit us 42.3 -83.0|dhaka bd 23.8 90.4|doha qa 25.3 51.5|dubai ae 25.2 55.3
dublin ie 53.3 -6.3|eemshaven nl 53.4 6.8|foshan cn 23.0 113.1|frankfurt de 50.1 8.7|fuzhou cn 26.1 119.3
gavle se 60.7 17.1|geneva ch 46.2 6.1|guangzhou cn 23.1 113.3|guiyang cn 26.6 106.7|hamburg de 53.6 10.0
hamina fi 60.6 27.2|hangzhou cn 30.3 120.2|hanoi vn 21.0 105.9|harbin cn 45.8 126.5|helsinki fi 60.2 24.9
heyuan cn 23.7 114.7|ho-chi-minh-city vn 10.8 106.7|hohhot cn 40.8 111.7|hong-kong hk 22.3 114.2|houston us 29.8 -95.4
hyderabad in 17.4 78.5|istanbul tr 41.0 29.0|jakarta id -6.2 106.8|jeddah sa 21.5 39.2|jinan cn 36.7 117.1
johannesburg za -26.2 28.0|karachi pk 24.9 67.0|kathmandu np 27.7 85.3|kuala-lumpur my 3.1 101.7|kunming cn 25.0 102.7
kuwait-city kw 29.4 48.0|kyiv ua 50.5 30.5|lagos ng 6.5 3.4|lahore pk 31.5 74.3|langfang cn 39.5 116.7
las-vegas us 36.2 -115.1|lima pe -12.0 -77.0|lisbon pt 38.7 -9.1|london gb 51.5 -0.1|los-angeles us 34.1 -118.2
lyon fr 45.8 4.8|macau mo 22.2 113.5|madrid es 40.4 -3.7|manila ph 14.6 121.0|marseille fr 43.3 5.4
melbourne au -37.8 145.0|mexico-city mx 19.4 -99.1|miami us 25.8 -80.2|milan it 45.5 9.2|minneapolis us 45.0 -93.3
minsk by 53.9 27.6|mons be 50.5 3.8|montevideo uy -34.9 -56.2|montreal ca 45.5 -73.6|moscow ru 55.8 37.6
mumbai in 19.1 72.9|munich de 48.1 11.6|nairobi ke -1.3 36.8|nanjing cn 32.1 118.8|nanning cn 22.8 108.4
new-york us 40.7 -74.0|ningbo cn 29.9 121.6|novosibirsk ru 55.0 82.9|osaka jp 34.7 135.5|oslo no 59.9 10.8
ottawa ca 45.4 -75.7|panama-city pa 9.0 -79.5|paris fr 48.9 2.4|perth au -32.0 115.9|philadelphia us 40.0 -75.2
phoenix us 33.4 -112.1|portland us 45.5 -122.7|prague cz 50.1 14.4|pune in 18.5 73.9|qingdao cn 36.1 120.4
queretaro mx 20.6 -100.4|quebec ca 46.8 -71.2|riga lv 56.9 24.1|rio-de-janeiro br -22.9 -43.2|riyadh sa 24.7 46.7
rome it 41.9 12.5|saint-petersburg ru 59.9 30.3|salt-lake-city us 40.8 -111.9|san-antonio us 29.4 -98.5
san-diego us 32.7 -117.2|san-francisco us 37.8 -122.4|san-jose us 37.3 -121.9|santiago cl -33.4 -70.7
sao-paulo br -23.6 -46.6|seattle us 47.6 -122.3|seoul kr 37.6 127.0|shanghai cn 31.2 121.5|shenyang cn 41.8 123.4
shenzhen cn 22.5 114.1|singapore sg 1.4 103.8|sofia bg 42.7 23.3|stockholm se 59.3 18.1|suzhou cn 31.3 120.6
sydney au -33.9 151.2|taipei tw 25.0 121.5|tallinn ee 59.4 24.8|tashkent uz 41.3 69.2|tehran ir 35.7 51.4
tel-aviv il 32.1 34.8|the-dalles us 45.6 -121.2|tianjin cn 39.1 117.2|tokyo jp 35.7 139.7|toronto ca 43.7 -79.4
tunis tn 36.8 10.2|turin it 45.1 7.7|ulanqab cn 41.0 113.1|urumqi cn 43.8 87.6|vancouver ca 49.3 -123.1
vienna at 48.2 16.4|vilnius lt 54.7 25.3|warsaw pl 52.2 21.0|washington us 38.9 -77.0|wuhan cn 30.6 114.3
wuxi cn 31.5 120.3|xian cn 34.3 108.9|xiamen cn 24.5 118.1|zhangjiakou cn 40.8 114.9|zhengzhou cn 34.7 113.6
zhongwei cn 37.5 105.2|zurich ch 47.4 8.5
"""

CLOUDS = """
us-east-1 ashburn|us-east-2 columbus|us-west-1 san-francisco|us-west-2 portland|us-gov-east-1 columbus
us-gov-west-1 portland|ca-central-1 montreal|ca-west-1 calgary|mx-central-1 queretaro|sa-east-1 sao-paulo
eu-west-1 dublin|eu-west-2 london|eu-west-3 paris|eu-central-1 frankfurt|eu-central-2 zurich|eu-north-1 stockholm
eu-south-1 milan|eu-south-2 madrid|me-south-1 bahrain|me-central-1 dubai|il-central-1 tel-aviv|af-south-1 cape-town
ap-east-1 hong-kong|ap-east-2 taipei|ap-south-1 mumbai|ap-south-2 hyderabad|ap-southeast-1 singapore
ap-southeast-2 sydney|ap-southeast-3 jakarta|ap-southeast-4 melbourne|ap-southeast-5 kuala-lumpur
ap-southeast-6 manila|ap-southeast-7 bangkok|ap-northeast-1 tokyo|ap-northeast-2 seoul|ap-northeast-3 osaka
cn-north-1 beijing|cn-northwest-1 zhongwei
us-central1 council-bluffs|us-east1 charleston|us-east4 ashburn|us-east5 columbus|us-south1 dallas|us-west1 the-dalles
us-west2 los-angeles|us-west3 salt-lake-city|us-west4 las-vegas|northamerica-northeast1 montreal
northamerica-northeast2 toronto|northamerica-south1 queretaro|southamerica-east1 sao-paulo|southamerica-west1 santiago
europe-central2 warsaw|europe-north1 hamina|europe-north2 stockholm|europe-southwest1 madrid|europe-west1 mons
europe-west2 london|europe-west3 frankfurt|europe-west4 eemshaven|europe-west6 zurich|europe-west8 milan
europe-west9 paris|europe-west10 berlin|europe-west12 turin|me-central1 doha|me-central2 dammam|me-west1 tel-aviv
africa-south1 johannesburg|asia-east1 taipei|asia-east2 hong-kong|asia-northeast1 tokyo|asia-northeast2 osaka
asia-northeast3 seoul|asia-south1 mumbai|asia-south2 delhi|asia-southeast1 singapore|asia-southeast2 jakarta
australia-southeast1 sydney|australia-southeast2 melbourne
eastus ashburn|eastus2 ashburn|centralus council-bluffs|northcentralus chicago|southcentralus san-antonio
westcentralus denver|westus san-francisco|westus2 seattle|westus3 phoenix|canadacentral toronto|canadaeast quebec
mexicocentral queretaro|brazilsouth sao-paulo|chilecentral santiago|northeurope dublin|westeurope amsterdam
uksouth london|ukwest london|francecentral paris|francesouth marseille|germanywestcentral frankfurt|germanynorth berlin
switzerlandnorth zurich|switzerlandwest geneva|italynorth milan|spaincentral madrid|polandcentral warsaw
norwayeast oslo|swedencentral gavle|austriaeast vienna|uaenorth dubai|uaecentral abu-dhabi|qatarcentral doha
israelcentral tel-aviv|southafricanorth johannesburg|southafricawest cape-town|centralindia pune|southindia chennai
westindia mumbai|eastasia hong-kong|southeastasia singapore|japaneast tokyo|japanwest osaka|koreacentral seoul
koreasouth busan|australiaeast sydney|australiasoutheast melbourne|australiacentral canberra|newzealandnorth auckland
indonesiacentral jakarta|malaysiawest kuala-lumpur|chinaeast shanghai|chinanorth beijing
cn-hangzhou hangzhou|cn-shanghai shanghai|cn-nanjing nanjing|cn-fuzhou fuzhou|cn-qingdao qingdao|cn-beijing beijing
cn-zhangjiakou zhangjiakou|cn-huhehaote hohhot|cn-wulanchabu ulanqab|cn-shenzhen shenzhen|cn-heyuan heyuan
cn-guangzhou guangzhou|cn-chengdu chengdu|cn-wuhan wuhan|cn-hongkong hong-kong|cn-zhengzhou zhengzhou
us-east us-east-1|us-west us-west-1|us-central us-central1|cn-north beijing|cn-north-4 beijing|cn-north-9 ulanqab
cn-east shanghai|cn-east-2 shanghai|cn-east-3 shanghai|cn-south guangzhou|cn-south-1 guangzhou|cn-southwest chengdu
cn-southwest-2 guiyang|cn-northwest xian|ap-beijing beijing|ap-shanghai shanghai|ap-guangzhou guangzhou
ap-chengdu chengdu|ap-chongqing chongqing|ap-nanjing nanjing|ap-hongkong hong-kong|ap-singapore singapore
ap-bangkok bangkok|ap-jakarta jakarta|ap-seoul seoul|ap-tokyo tokyo|ap-mumbai mumbai|na-siliconvalley san-jose
na-ashburn ashburn|na-toronto toronto|eu-frankfurt frankfurt|sa-saopaulo sao-paulo
virginia ashburn|ohio columbus|oregon portland|california san-francisco|texas dallas|ireland dublin|uk london
hongkong hong-kong|saopaulo sao-paulo|newyork new-york|nyc new-york|sanfrancisco san-francisco|losangeles los-angeles
usa us|china cn|japan jp|korea kr|germany de|france fr|india in|brazil br|canada ca|australia au|russia ru
"""
"""Other names of a location above, or of an earlier entry of this table."""

CONTINENTS = """
eu 50.1 8.7|europe 50.1 8.7|asia 1.4 103.8|apac 1.4 103.8|africa -26.2 28.0|oceania -33.9 151.2
north-america 39.0 -77.5|south-america -23.6 -46.6|middle-east 25.2 55.3
"""
"""Locations in no country, of which only the distance is known."""
