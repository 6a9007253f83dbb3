"""What is wrong with an object, kind by kind: functions from objects to FieldErrors with upstream's messages."""
