# Anscombe's quartet: four sets that every summary calls the same.
import csv
import statistics
from collections import defaultdict

points = defaultdict(list)
with open("/data/anscombe.csv") as file:
    for row in csv.DictReader(file):
        points[row["set"]].append((float(row["x"]), float(row["y"])))

summary = {}
for name, pairs in points.items():
    xs, ys = zip(*pairs)
    fit = statistics.linear_regression(xs, ys)
    summary[name] = {
        "n": len(pairs),
        "mean_y": round(statistics.mean(ys), 2),
        "variance_y": round(statistics.variance(ys), 2),
        "correlation": round(statistics.correlation(xs, ys), 3),
        "line": f"y = {fit.slope:.2f} x + {fit.intercept:.2f}",
    }
    print(name, summary[name])
summary
