"""The configuration blocks of the two guides, character for character as they are printed there."""

BASIC = """\
{
  "mode": "master|worker|standalone",
  "device_id": "设备唯一标识",
  "device_name": "设备显示名称",
  "host": "监听地址",
  "port": 8000,
  "master_url": "主节点URL（工作节点需要）"
}
"""

SCHEDULING = """\
{
  "concurrent_tasks": 3,
  "task_timeout": 3600,
  "max_retry_count": 3,
  "dispatch_interval": 10,
  "load_balance_strategy": "least_tasks|round_robin|weighted|random"
}
"""

MONITORING = """\
{
  "heartbeat_interval": 30,
  "timeout_check_interval": 60,
  "device_timeout": 300,
  "enable_monitoring": true
}
"""

CONCURRENCY = """\
{
  "concurrent_tasks": 5
}
"""

HEARTBEAT = """\
{
  "heartbeat_interval": 30
}
"""

TIMEOUT = """\
{
  "task_timeout": 3600
}
"""

API_KEY = """\
{
  "api_key": "your-secure-api-key-here"
}
"""

QUEUE_YAML = """\
# config/queue.yaml
redis:
  url: "redis://localhost:6379/0"
  max_connections: 20
  connection_pool_timeout: 5

queue:
  priorities:
    high: 10
    normal: 5
    low: 1
  retry:
    max_retries: 3
    base_delay: 1
    max_delay: 60

workers:
  default_count: 5
  max_count: 20
  task_timeout: 300
  shutdown_timeout: 30

monitoring:
  stats_interval: 60
  health_check_interval: 30
  alert_thresholds:
    failure_rate: 0.1
    queue_size: 1000
    avg_duration: 300
"""
