"""How many GPUs a training job needs: from what it trains to a decision with its candidates. Pure.

`training` says what is trained, `models` and `gpus` know shapes and cards, `memory` predicts the peak of one GPU,
`throughput` the speed, `answers` holds what other engines said, `decision` weighs the candidates.
"""
