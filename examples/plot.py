# A chart, shown as in a notebook: the client gets the picture, and its axes and series in words.
import csv

import matplotlib.pyplot as plt

figure, panels = plt.subplots(1, 4, figsize=(12, 3), sharex=True, sharey=True)
with open("/data/anscombe.csv") as file:
    rows = list(csv.DictReader(file))
for panel, name in zip(panels, ("I", "II", "III", "IV")):
    own = [row for row in rows if row["set"] == name]
    panel.scatter([float(row["x"]) for row in own], [float(row["y"]) for row in own])
    panel.set_title(name)
plt.show()
