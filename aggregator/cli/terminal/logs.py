"""Sets up logging: lines go to stderr, readable on a terminal, and as one JSON object per line elsewhere.

Invariant: structlog's and the standard library's loggers share one handler and one format. No traceback shows local
variables, because those may be records. An event is one line. Control characters in text from a broker or a registry
are shown and never take effect. Libraries log from level warning on, whatever the configured level is.
"""

import logging
from collections.abc import Mapping
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from aggregator.cli.terminal.log_codes import code_of
from aggregator.escapes import json_line, visible

LogFormat = Literal["auto", "text", "json"]
# Libraries that log very much at level debug. These events are not even created, which saves time.
NOISY = ("py4j", "urllib3", "numba", "matplotlib", "asyncio", "great_expectations", "httpx2", "httpcore2", "pyiceberg")
# Loggers whose events are shown from the configured level on. Other libraries show warnings and errors only.
_OWN = ("aggregator", "librdkafka")


def configure_logs(level: str, log_format: LogFormat, stream: TextIO, environ: Mapping[str, str]) -> None:
    """Set up the process's logging, once, before anything logs.

    Args:
        level: debug, info, warning or error.
        log_format: `auto` is text on a terminal and JSON elsewhere.
        stream: Usually stderr.
        environ: `NO_COLOR` in it turns colour off.
    """
    terminal = stream.isatty()
    text = log_format == "text" or (log_format == "auto" and terminal)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                *([] if text else [_coded]),
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _shown,
                _rendering(text=text, colour=terminal and not environ.get("NO_COLOR")),
            ],
        )
    )
    handler.addFilter(_is_told)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _is_told(event: logging.LogRecord) -> bool:
    return event.levelno >= logging.WARNING or event.name.partition(".")[0] in _OWN


def _rendering(*, text: bool, colour: bool) -> Processor:
    if text:
        plain = structlog.dev.plain_traceback
        return structlog.dev.ConsoleRenderer(colors=colour, exception_formatter=plain, timestamp_key="time")
    return structlog.processors.JSONRenderer(serializer=lambda event, **_: json_line(event))


def _coded(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """An event with its code, if it has one."""
    record: logging.LogRecord = event["_record"]
    code = getattr(record, "code", None) or code_of(record.name, record.msg)
    return {**event, "code": code} if code else event


def _shown(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Every text of an event in one line; a traceback's lines are set in, so that none can pass for another event's."""
    return {name: _shown_value(name, value) for name, value in event.items()}


def _shown_value(name: str, value: object) -> object:
    if name in ("exception", "stack"):
        return "\n".join(visible(f"  {line}") for line in str(value).split("\n"))
    if value is None or isinstance(value, bool | int | float | list | tuple | dict):
        return value  # texts inside it are written by its repr, or by JSON's escapes
    return visible(value if isinstance(value, str) else repr(value))
