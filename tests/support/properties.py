"""Settings of the property tests: no deadline and no complaint about speed, because the machine may be shared."""

from hypothesis import HealthCheck, settings

_CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
PROPERTY = settings(_CALM, max_examples=25)
BROAD_PROPERTY = settings(_CALM, max_examples=60)
LIFE = settings(_CALM, max_examples=30, stateful_step_count=40)
