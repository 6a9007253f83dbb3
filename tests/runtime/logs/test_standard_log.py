"""Loggers for programs that embed kcm: Python's logging module selects what is shown."""

from __future__ import annotations

import logging

import pytest

from kcm.runtime.logs.standard_log import quiet_log, standard_log


def test_record_has_facts_in_its_text_and_as_attributes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="kcm")
    standard_log("kcm").bind(controller="ttl").info("node annotated", key="n1", share="5%d")
    (record,) = caplog.records
    assert record.getMessage() == 'node annotated controller="ttl" key="n1" share="5%d"'
    assert record.facts == {"controller": "ttl", "key": "n1", "share": "5%d"}  # type: ignore[attr-defined]
    assert record.levelno == logging.INFO


@pytest.mark.parametrize("method", ["debug", "info", "warning"])
def test_a_record_names_the_caller(caplog: pytest.LogCaptureFixture, method: str) -> None:
    caplog.set_level(logging.DEBUG, logger="kcm")
    getattr(standard_log("kcm"), method)("here")
    assert (caplog.records[0].filename, caplog.records[0].funcName) == (
        "test_standard_log.py",
        "test_a_record_names_the_caller",
    )


def test_info_of_a_higher_verbosity_is_logged_as_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="kcm")
    log = standard_log("kcm")
    log.info("synced", v=2, objects=3)
    assert caplog.records == []
    caplog.set_level(logging.DEBUG, logger="kcm")
    log.info("synced", v=2, objects=3)
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.DEBUG, "synced objects=3")
    assert record.facts == {"objects": 3}  # type: ignore[attr-defined]
    assert record.filename == "test_standard_log.py"


def test_the_level_of_the_logger_decides_what_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="kcm")
    log = standard_log("kcm")
    log.info("not shown")
    log.error("shown")
    assert caplog.messages == ["shown"]
    caplog.set_level(logging.DEBUG, logger="kcm")
    log.debug("shown too")
    assert caplog.messages == ["shown", "shown too"]


def test_an_exception_goes_with_its_record(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise KeyError("web")
    except KeyError:
        standard_log("kcm").exception("sync failed")
    assert caplog.records[0].exc_info is not None
    assert "KeyError: 'web'" in caplog.text


def test_a_quiet_log_logs_nothing(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    caplog.set_level(logging.DEBUG)
    log = quiet_log().bind(key="n1")
    log.error("lost")
    log.info("lost")
    assert caplog.records == []
    assert capsys.readouterr() == ("", "")
