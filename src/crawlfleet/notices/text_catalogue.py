"""The sentences of notices in English and Chinese, by what a rule measures.

A sentence may use `{value}` and `{threshold}`, which are written with their units. The titles say what is the case, so
that a list of mails or a locked telephone shows enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crawlfleet.model.notice import Language, NoticeState, Severity


@dataclass(frozen=True, slots=True)
class Wording:
    """What one kind of rule says in one language."""

    firing: str
    """Title while it fires."""
    recovered: str
    """Title when it is over."""
    sentence: str
    """One sentence with value and threshold, while it fires."""


@dataclass(frozen=True, slots=True)
class KindTexts:
    """The texts of one kind of rule."""

    english: Wording
    chinese: Wording

    def wording(self, language: Language) -> Wording:
        return self.chinese if language is Language.CHINESE else self.english


KIND_TEXTS: Mapping[str, KindTexts] = {
    "failure_rate": KindTexts(
        Wording(
            "Many executions fail",
            "Executions succeed again",
            "{value} of the executions failed or timed out; the threshold is {threshold}.",
        ),
        Wording("执行失败率过高", "执行失败率已恢复正常", "{value} 的执行失败或超时，阈值为 {threshold}。"),
    ),
    "queue_size": KindTexts(
        Wording("Too many tasks wait", "The queue is short again", "{value} tasks wait; the threshold is {threshold}."),
        Wording("排队任务过多", "排队任务数已恢复正常", "有 {value} 个任务在排队，阈值为 {threshold}。"),
    ),
    "oldest_wait": KindTexts(
        Wording(
            "A task waits too long",
            "No task waits too long any more",
            "The oldest ready task has waited for {value}; the threshold is {threshold}.",
        ),
        Wording("任务等待过久", "任务等待时间已恢复正常", "最早就绪的任务已等待 {value}，阈值为 {threshold}。"),
    ),
    "avg_duration": KindTexts(
        Wording(
            "Executions take long on average",
            "Executions take their usual time again",
            "Executions ran for {value} on average; the threshold is {threshold}.",
        ),
        Wording("平均执行时间过长", "平均执行时间已恢复正常", "执行平均用时 {value}，阈值为 {threshold}。"),
    ),
    "p95_duration": KindTexts(
        Wording(
            "The slowest executions take long",
            "The slowest executions take their usual time again",
            "One execution in twenty ran for {value} or longer; the threshold is {threshold}.",
        ),
        Wording(
            "最慢的执行用时过长", "最慢的执行用时已恢复正常", "5% 的执行用时达到或超过 {value}，阈值为 {threshold}。"
        ),
    ),
    "node_down": KindTexts(
        Wording(
            "A node stopped answering",
            "The node answers again",
            "The node sends no syncs; its tasks go to other nodes.",
        ),
        Wording("节点失联", "节点已恢复", "节点不再同步，它的任务将转到其他节点。"),
    ),
    "cluster_down": KindTexts(
        Wording(
            "A cluster has no node left",
            "The cluster has nodes again",
            "No node of the cluster answers; its tasks wait.",
        ),
        Wording("集群没有可用节点", "集群已有可用节点", "集群中没有节点响应，它的任务只能等待。"),
    ),
    "host_blocked": KindTexts(
        Wording(
            "A host blocks our requests",
            "The host answers normally again",
            "{value} of the requests to the host were blocked; the threshold is {threshold}.",
        ),
        Wording("站点拦截了请求", "站点已恢复正常响应", "对该站点的请求有 {value} 被拦截，阈值为 {threshold}。"),
    ),
    "dead_letters": KindTexts(
        Wording(
            "Many tasks became dead letters",
            "Few tasks become dead letters again",
            "{value} tasks became dead letters within 15 minutes; the threshold is {threshold}.",
        ),
        Wording("死信任务大量增加", "死信任务不再大量增加", "15 分钟内有 {value} 个任务成为死信，阈值为 {threshold}。"),
    ),
    "schedule_missed": KindTexts(
        Wording(
            "A schedule missed a tick",
            "The schedule fires on time again",
            "A task of the schedule was not submitted at its time.",
        ),
        Wording("定时任务错过了触发", "定时任务已恢复按时触发", "该定时任务有一次没有按时提交。"),
    ),
    "no_results": KindTexts(
        Wording(
            "A run of a schedule gave too few results",
            "The schedule gives its usual results again",
            "The last run gave {value} of the usual number of items; the threshold is {threshold}.",
        ),
        Wording(
            "定时任务的结果过少",
            "定时任务的结果数已恢复正常",
            "最近一次运行只得到通常数量的 {value}，阈值为 {threshold}。",
        ),
    ),
    "disk_low": KindTexts(
        Wording(
            "A disk is nearly full",
            "The disk has enough space again",
            "{value} of the disk is free; the threshold is {threshold}.",
        ),
        Wording("磁盘空间不足", "磁盘空间已恢复充足", "磁盘仅剩 {value} 可用，阈值为 {threshold}。"),
    ),
    "store_slow": KindTexts(
        Wording(
            "The store commits slowly",
            "The store commits at its usual speed again",
            "One commit in a hundred took {value} or longer; the threshold is {threshold}.",
        ),
        Wording("存储提交缓慢", "存储提交速度已恢复正常", "1% 的提交用时达到或超过 {value}，阈值为 {threshold}。"),
    ),
    "broker_away": KindTexts(
        Wording(
            "The broker does not answer",
            "The broker answers again",
            "Nothing is lost without the broker, but everything takes longer.",
        ),
        Wording("消息代理无响应", "消息代理已恢复响应", "没有消息代理不会丢失任务，但一切都会变慢。"),
    ),
    "no_leader": KindTexts(
        Wording("No master leads", "A master leads again", "No task is placed until a master leads."),
        Wording("没有主节点担任领导者", "已有主节点担任领导者", "选出领导者之前，任务不会被分配。"),
    ),
    "tasks_stuck": KindTexts(
        Wording(
            "Tasks are stuck that no node can run",
            "No task is stuck any more",
            "{value} ready tasks can run on no node.",
        ),
        Wording("有任务无法在任何节点上运行", "不再有无法运行的任务", "{value} 个就绪任务没有任何节点可以运行。"),
    ),
    "quota_spent": KindTexts(
        Wording(
            "A project has used up its daily quota",
            "The project has quota again",
            "{value} of a daily quota is used; the threshold is {threshold}.",
        ),
        Wording("项目每日配额已用尽", "项目配额已恢复", "每日配额已使用 {value}，阈值为 {threshold}。"),
    ),
    "certificate": KindTexts(
        Wording(
            "A certificate ends soon",
            "The certificate was renewed",
            "The certificate is valid for {value} more; the threshold is {threshold}.",
        ),
        Wording("证书即将到期", "证书已更新", "证书还有 {value} 到期，阈值为 {threshold}。"),
    ),
    "channel_failing": KindTexts(
        Wording(
            "A channel delivers no notices",
            "The channel delivers notices again",
            "Notices to the channel are refused or lost on the way.",
        ),
        Wording("通知渠道发送失败", "通知渠道已恢复", "发往该渠道的通知被拒绝或未能送达。"),
    ),
    "version_mixed": KindTexts(
        Wording(
            "Masters run different versions",
            "All masters run one version again",
            "Masters of different versions run beside each other for too long.",
        ),
        Wording("主节点版本不一致", "主节点版本已一致", "不同版本的主节点同时运行的时间过长。"),
    ),
}
"""The texts of every kind of rule."""


@dataclass(frozen=True, slots=True)
class Phrases:
    """The words of one language that do not depend on the rule."""

    severities: Mapping[Severity, str]
    states: Mapping[NoticeState, str]
    scopes: Mapping[str, str]
    """Names of the kinds of scopes, such as `node`."""
    generic: Wording
    """Texts of a rule whose kind has no texts of its own."""
    still: str
    for_span: str
    after_span: str
    reminder: str
    recovered: str
    flapping: str
    digest_title: str
    digest: str
    test_title: str
    test: str
    value: str
    threshold: str
    since: str
    scope: str
    severity: str
    why: str
    link: str
    more: str
    alerts: str


ENGLISH = Phrases(
    severities={Severity.INFO: "INFO", Severity.WARNING: "WARNING", Severity.CRITICAL: "CRITICAL"},
    states={
        NoticeState.FIRING: "firing",
        NoticeState.RECOVERED: "recovered",
        NoticeState.REMINDER: "still firing",
        NoticeState.FLAPPING: "flapping",
        NoticeState.DIGEST: "digest",
        NoticeState.TEST: "test",
    },
    scopes={},
    generic=Wording(
        "Rule {rule} fires", "Rule {rule} has recovered", "The value is {value}; the threshold is {threshold}."
    ),
    still="Still: {title}",
    for_span="It has been so for {span}.",
    after_span="It is over after {span}.",
    reminder="This is the {number} reminder.",
    recovered="It is over.",
    flapping="It fired and recovered too often: there are no more notices of it until it stays quiet for 10 minutes.",
    digest_title="{count} alerts in one message",
    digest="More notices were due than this channel may send; this message has what they said.",
    test_title="Test of this channel",
    test="This is a test. Alerts of the installation will arrive here.",
    value="Value",
    threshold="Threshold",
    since="Since",
    scope="About",
    severity="Severity",
    why="Why",
    link="Open",
    more="... and {count} more",
    alerts="{count} alerts.",
)
CHINESE = Phrases(
    severities={Severity.INFO: "提示", Severity.WARNING: "警告", Severity.CRITICAL: "严重"},
    states={
        NoticeState.FIRING: "告警中",
        NoticeState.RECOVERED: "已恢复",
        NoticeState.REMINDER: "仍在告警",
        NoticeState.FLAPPING: "反复告警",
        NoticeState.DIGEST: "汇总",
        NoticeState.TEST: "测试",
    },
    scopes={
        "node": "节点",
        "cluster": "集群",
        "project": "项目",
        "queue": "队列",
        "type": "任务类型",
        "host": "站点",
        "schedule": "定时任务",
        "disk": "磁盘",
        "master": "主节点",
        "channel": "通知渠道",
    },
    generic=Wording("规则 {rule} 触发告警", "规则 {rule} 已恢复", "当前值为 {value}，阈值为 {threshold}。"),
    still="仍未恢复：{title}",
    for_span="已持续 {span}。",
    after_span="持续 {span} 后恢复。",
    reminder="这是{number}提醒。",
    recovered="告警已结束。",
    flapping="该告警反复触发和恢复：在安静 10 分钟之前不再通知。",
    digest_title="{count} 条告警汇总",
    digest="待发通知超过了该渠道的发送上限，其内容汇总在本消息中。",
    test_title="渠道测试",
    test="这是一条测试消息。该安装的告警将发送到这里。",
    value="当前值",
    threshold="阈值",
    since="开始于",
    scope="对象",
    severity="级别",
    why="原因",
    link="查看",
    more="…… 另有 {count} 条",
    alerts="共 {count} 条告警。",
)
PHRASES: Mapping[Language, Phrases] = {Language.ENGLISH: ENGLISH, Language.CHINESE: CHINESE}
