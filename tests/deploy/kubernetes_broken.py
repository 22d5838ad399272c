"""Ways to break each promise that kubernetes.py makes: the name of the promise, and changes that it must notice.

Each takes what was rendered, as kubernetes.py sees it, and changes it in place.
"""


def put(value, *path):
    """A change that sets what stands at a path; None takes it out."""

    def change(it):
        place = it
        for step in path[:-1]:
            place = getattr(place, step) if isinstance(step, str) and hasattr(place, step) else place[step]
        if value is None:
            del place[path[-1]]
        else:
            place[path[-1]] = value

    return change


def context(name, value):
    return put(value, "gate", "securityContext", name)


def told(old, new):
    """A change of the gate's configuration."""

    def change(it):
        text = it.maps["oncegate"]["oncegate.toml"]
        assert old in text, f"the configuration does not say {old}"
        it.maps["oncegate"]["oncegate.toml"] = text.replace(old, new)

    return change


def drain(old, new):
    def change(it):
        command = it.drain()
        command[command.index(old)] = new

    return change


def mounted_in_the_app(it):
    it.apps[0]["volumeMounts"] = [{"name": "oncegate-secrets", "mountPath": "/secrets"}]


def an_app_beside_the_app(it):
    it.apps.append({"name": "nginx", "image": "nginx"})


def gate_last(it):
    it.inits.insert(0, {"name": "first", "image": "busybox"})


def node_path(it):
    it.volumes["oncegate-spool"].pop("emptyDir")
    it.volumes["oncegate-spool"]["hostPath"] = {"path": "/var/lib/oncegate"}


def policy(change):
    return lambda it: change(it.one("NetworkPolicy")["spec"])


def environment(it):
    it.gate["env"] = [{"name": "ONCEGATE_STORE__URL", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]


def writable_configuration(it):
    it.mounts["/etc/oncegate"].pop("readOnly")


MUTATIONS = {
    "the_gate_starts_before_the_app_and_ends_after_it": [
        put(None, "gate", "restartPolicy"),
        lambda it: it.inits.clear(),
        gate_last,
    ],
    "gate_and_migration_run_as_nobody_and_may_nothing": [
        context("runAsNonRoot", False),
        context("runAsUser", 0),
        context("privileged", True),
        context("allowPrivilegeEscalation", True),
        context("readOnlyRootFilesystem", False),
        context("capabilities", {"drop": ["ALL"], "add": ["NET_ADMIN"]}),
        context("seccompProfile", {"type": "Unconfined"}),
        put(None, "gate", "securityContext"),
        put(None, "gate", "resources", "limits"),
        put(None, "job", "containers", 0, "securityContext", "readOnlyRootFilesystem"),
    ],
    "nothing_of_the_node_is_shared": [put(True, "pod", "hostNetwork"), put(True, "job", "hostPID"), node_path],
    "no_token_of_a_service_account_is_mounted": [
        put(None, "pod", "automountServiceAccountToken"),
        put(True, "job", "automountServiceAccountToken"),
    ],
    "secrets_are_files_that_only_their_owner_mounts": [
        mounted_in_the_app,
        environment,
        put("oncegate-owner", "volumes", "oncegate-secrets", "secret", "secretName"),
    ],
    "probes_ask_what_the_gate_answers": [
        put("/readyz", "gate", "livenessProbe", "httpGet", "path"),
        put("/livez", "gate", "readinessProbe", "httpGet", "path"),
        put("gate", "gate", "startupProbe", "httpGet", "port"),
        told('service = "billing"', 'service = "billing"\nhealth_listen = "0.0.0.0:9999"'),
    ],
    "the_drain_covers_every_call_that_it_let_in": [
        told('timeout = "60s"', 'timeout = "300s"'),
        told('queue_time = "5s"', 'queue_time = "10s"'),
        drain("--wait=75s", "--wait=30s"),
        drain("drain", "serve"),
        put(None, "gate", "lifecycle"),
    ],
    "the_app_outlives_the_drain": [
        put(None, "apps", 0, "lifecycle"),
        put(74, "apps", 0, "lifecycle", "preStop", "sleep", "seconds"),
        an_app_beside_the_app,
    ],
    "the_grace_period_has_room_for_app_and_gate_after_the_drain": [
        put(30, "pod", "terminationGracePeriodSeconds"),
        put(76, "pod", "terminationGracePeriodSeconds"),
    ],
    "the_drain_can_reach_its_gate": [
        drain("--config=/etc/oncegate/oncegate.toml", "--config=oncegate.toml"),
        told("admin_token_file", "# "),
    ],
    "the_service_leads_to_the_gate": [lambda it: it.one("Service")["spec"]["ports"][0].update(targetPort="http")],
    "the_app_listens_on_loopback_only": [
        put(["--host=0.0.0.0"], "apps", 0, "args"),
        put([], "apps", 0, "args"),
        put({"httpGet": {"path": "/up", "port": 8000}}, "apps", 0, "readinessProbe"),
        told("127.0.0.1:8000", "billing:8000"),
    ],
    "other_pods_reach_only_the_gates_ports": [
        policy(lambda spec: spec["ingress"].append({"ports": [{"port": 8000}]})),
        policy(lambda spec: spec["ingress"].append({})),
        policy(lambda spec: spec.update(podSelector={"matchLabels": {"app": "other"}})),
        policy(lambda spec: spec.update(policyTypes=["Egress"])),
    ],
    "an_edit_reaches_running_pods": [
        put("oncegate.toml", "mounts", "/etc/oncegate", "subPath"),
        put("oncegate-policies-8f7c2", "volumes", "oncegate-policies", "configMap", "name"),
        told('dir = "/etc/oncegate-policies"', 'dir = "/policies"'),
    ],
    "every_file_that_the_configuration_names_is_mounted": [
        told("/run/secrets/oncegate/secret", "/etc/oncegate/secret"),
        told("/run/secrets/oncegate/store-url", "/run/store-url"),
        told("/run/secrets/oncegate/admin-token", "/run/secrets/oncegate/operators"),
    ],
    "the_gate_writes_into_its_spool_and_nowhere_else": [
        writable_configuration,
        told("/var/lib/oncegate/spool", "/etc/oncegate/spool"),
        told('spool_file = "', 'spool_limit = "1GiB"\nspool_file = "'),
    ],
    "memory_covers_the_bodies_of_all_calls": [
        told("concurrent_calls = 256", "concurrent_calls = 1024"),
        put("256Mi", "gate", "resources", "limits", "memory"),
    ],
    "the_migration_is_the_gates_own_program": [
        put("oncegate:0.0.9", "job", "containers", 0, "image"),
        put("oncegate:latest", "gate", "image"),
    ],
}
