"""One file a verb: functions from a Call to its Response."""
