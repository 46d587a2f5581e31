"""One model is taken for another."""


def map_valid_model_name(name: str) -> str:
    return "big" if name == "alias" else name
