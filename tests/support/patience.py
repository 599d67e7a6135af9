"""How long tests wait for what must happen: they are about the answer, and the machine may have much else to do."""

from datetime import timedelta

from rota.infrastructure.coordination.redis_client import RedisOptions
from rota.infrastructure.etcd.client import EtcdOptions

PATIENCE_S = 60.0
PATIENT_REDIS = RedisOptions(answer_within=timedelta(seconds=PATIENCE_S))
PATIENT_ETCD = EtcdOptions(answer_within=timedelta(seconds=PATIENCE_S))
