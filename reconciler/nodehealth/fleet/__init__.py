"""The health of a fleet: findings, policy and what is known so far give decisions. Pure, so it can be replayed."""
