"""The output of `reconciler size`: `answer` is what is shown, `text` and `report` (JSON) how."""
