"""Services and what is behind them."""
