# An honest program: it calls the owner's API, which demands a key that the program has never seen.
import json
import os
import urllib.request

with urllib.request.urlopen(f"https://{API}/forecast?city=Basel") as answer:
    forecast = json.load(answer)
    print("headers:", dict(answer.headers))
print("environment:", dict(os.environ))
forecast
