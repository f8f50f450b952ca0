"""What the service answers: messages, routes, and the calls behind them."""
