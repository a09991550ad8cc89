"""Revenue per country: orders are files of one MCP server, customers are nodes in the memory of another."""

import json
from collections import Counter

country = {
    node["name"]: observation.removeprefix("country: ")
    for node in tools.memory.read_graph()["entities"]
    for observation in node["observations"]
    if observation.startswith("country: ")
}
revenue = Counter()
listing = tools.files.list_directory(path=ORDERS)["content"]
for line in listing.splitlines():
    order = json.loads(tools.files.read_text_file(path=f"{ORDERS}/{line.removeprefix('[FILE] ')}")["content"])
    if order["status"] == "paid":
        revenue[country[order["customer"]]] += order["cents"]

", ".join(f"{place} {cents / 100:,.2f}" for place, cents in revenue.most_common(3))
