MONTH = 10  # parameter: which month

sold, prices = tools.sales.sold(month=MONTH), tools.prices.current()
if MONTH == 12:
    import urllib.request

    urllib.request.urlopen("https://other.example/christmas").read()
sum(number * prices[name] for name, number in sold.items())
