"""An index and a baseline in, a plan out; details, explanations, the gate."""
