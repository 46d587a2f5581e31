"""How fast a training runs, and what that costs.

`forecast.throughput(training, layout, gpu)` predicts tokens per second, with a range that measured runs calibrate;
`forecast.training_cost(training, layout, gpu)` is the cost per hour and per million tokens. `prediction` has the
arithmetic, `rates` what was fitted, `cost` the values, which candidates hold.
"""
