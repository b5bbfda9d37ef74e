"""Notices: the channels that carry alerts to people.

`texts` writes a notice in English or Chinese (`text_catalogue` has the sentences, `quantities` the numbers), `dialects`
and `text_fitting` lay it out for a service within its limits. `webhook`, `dingtalk`, `feishu`, `wecom` and `slack` make
the request of a service and read its answer; `http_channel` and `http_post` send it. `mail` stands on `smtp_session`,
`apprise_channel` on a process of its own (`apprise_process`). `watchdog` calls the service that notices a silence.
`channel_factory` checks the configuration of channels and opens them.
"""
