import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.scheduling.placement.regions import DEFAULT_REGIONS, EARTH_KM, Location, Regions, distance_km


def at(name: str) -> Location:
    place = DEFAULT_REGIONS.find_location(name)
    assert place is not None, name
    return place


@pytest.mark.parametrize(
    ("name", "country"),
    [
        ("us-east-1", "us"),
        ("US East 1", "us"),
        ("us_east_1", "us"),
        ("us-east-1a", "us"),
        ("europe-west1-b", "be"),
        ("eu-central-1", "de"),
        ("cn-hangzhou", "cn"),
        ("cn-hangzhou-h", "cn"),
        ("ap-southeast-1", "sg"),
        ("de", "de"),
        ("DE", "de"),
        ("Tokyo", "jp"),
        ("New York", "us"),
        ("cn-north", "cn"),
        ("fr-par", "fr"),
        ("westeurope", "nl"),
        ("me-central-1", "ae"),
        ("sa-east-1", "br"),
        ("af-south-1", "za"),
        ("sa", "sa"),
        ("eu", ""),
        ("hong-kong", "hk"),
    ],
)
def test_usual_names_are_known(name: str, country: str) -> None:
    assert at(name).country == country


@pytest.mark.parametrize("name", ["", "mars", "sa-mars", "me-mars", "xx-north", "-", "a" * 10_000])
def test_other_names_are_nowhere(name: str) -> None:
    assert DEFAULT_REGIONS.find_location(name) is None


@pytest.mark.parametrize(
    ("one", "other", "km"),
    [
        ("london", "new-york", 5_570),
        ("paris", "tokyo", 9_710),
        ("sydney", "london", 16_990),
        ("eu-central-1", "frankfurt", 0),
        ("us-west-2", "us-east-1", 3_700),
        ("beijing", "shanghai", 1_070),
    ],
)
def test_distances_are_those_on_the_globe(one: str, other: str, km: float) -> None:
    assert distance_km(at(one), at(other)) == pytest.approx(km, rel=0.03, abs=30)


places = st.builds(Location, st.just(""), st.floats(-90, 90), st.floats(-180, 180))


@given(places, places)
def test_a_distance_is_the_same_both_ways_and_never_more_than_half_round(one: Location, other: Location) -> None:
    there, back = distance_km(one, other), distance_km(other, one)
    assert there == pytest.approx(back, abs=1e-6)
    assert 0 <= there <= math.pi * EARTH_KM + 1e-6
    assert distance_km(one, one) == pytest.approx(0.0, abs=1e-3)


def test_an_installation_adds_regions_and_says_otherwise_of_usual_ones() -> None:
    own = Regions({"Cellar 1": Location("at", 48.0, 16.0), "us-east-1": Location("ca", 45.0, -73.0)})
    assert own.find_location("cellar-1") == Location("at", 48.0, 16.0)
    assert own.find_location("us-east-1a") == Location("ca", 45.0, -73.0)
    assert own.find_location("us-east-2") == at("us-east-2")
