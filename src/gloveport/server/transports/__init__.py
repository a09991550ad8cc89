"""How clients are connected: standard input and output, or HTTP on the loopback interface."""
