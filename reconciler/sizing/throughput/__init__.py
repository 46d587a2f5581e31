"""The speed of a training, and its cost.

`forecast.throughput(training, layout, gpu)` predicts tokens per second, with a range that measured runs calibrate;
`cost.layout_cost(gpu, gpus, speed)` is the cost per hour and per million tokens.
"""
