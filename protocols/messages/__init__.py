"""The messages, one small file a conversation. Each is a frozen value; its docstring says who sends it to whom."""
