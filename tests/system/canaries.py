"""A generated corpus of planted secrets: each is unique, so that a leak names its hiding place."""

import base64
import json
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

VARIABLES = (
    "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY", "PGPASSWORD", "MYSQL_PWD", "MYSQL_ROOT_PASSWORD", "AUTHTOKEN",
    "DB_PASS", "SMTP_PASS", "REDISPASS", "private_key", "PRIVATE_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    "AZURE_CLIENT_SECRET", "AZURE_STORAGE_KEY", "GITHUB_PAT", "GITLAB_TOKEN", "NPM_TOKEN", "SLACK_BOT_TOKEN",
    "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "NGC_API_KEY", "NVIDIA_API_KEY", "COMET_API_KEY", "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN", "CLEARML_API_SECRET_KEY", "S3_SECRET_KEY", "MINIO_ROOT_PASSWORD", "DOCKER_PASSWORD",
    "REGISTRY_AUTH", "BASIC_AUTH", "JWT_SECRET", "COOKIE_SECRET", "SESSION_SECRET", "ENCRYPTION_KEY", "SIGNING_KEY",
    "MASTER_KEY", "SSH_PRIVATE_KEY", "DEPLOY_KEY", "GPG_PASSPHRASE", "KEYSTORE_PASSWORD", "TRUSTSTORE_PASSWORD",
    "VAULT_TOKEN", "CONSUL_HTTP_TOKEN", "SNOWFLAKE_PASSWORD", "dbPassword", "apiKey", "clientSecret", "accessToken",
    "refresh_token", "db-password", "api.token", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS", "API_KEY_2",
)  # fmt: skip
FLAGS = (
    "--password", "--pass", "--passwd", "--token", "--hub-token", "--hub_token", "--api-key", "--api_key", "--apikey",
    "--secret", "--client-secret", "--access-key", "--secret-key", "--auth-token", "--db-password", "--wandb-api-key",
    "--http-password", "--private-key", "--passphrase", "--ssh-key", "-password", "--kafka.sasl.password",
)  # fmt: skip
COMMANDS = (
    "curl -u bot:{c} https://example.com", "curl --user bot:{c} https://example.com",
    "curl --user=bot:{c} https://example.com", "curl -H 'X-Api-Key: {c}' https://example.com",
    'curl -H "Authorization: Bearer {c}" https://example.com', "curl -H 'Authorization: token {c}' https://example.com",
    "curl -H 'PRIVATE-TOKEN: {c}' https://example.com", "curl -H 'Cookie: session={c}' https://example.com",
    "wget --header='X-Auth-Token: {c}' https://example.com", "mysql -h db -u app -p{c} app",
    "mysqldump --password={c} app", "sshpass -p {c} ssh host", "redis-cli -h db -a {c} ping",
    "java -Ddb.password={c} -jar a.jar", "java -Djavax.net.ssl.keyStorePassword={c} -jar a.jar",
    "export HF_TOKEN={c}; python train.py", "HF_TOKEN={c} python train.py", "env WANDB_API_KEY='{c}' python train.py",
    "docker login -u bot -p {c} registry.example.com", 'echo ok && PGPASSWORD="{c}" psql -h db',
    "git clone https://bot:{c}@git.example.com/a.git", "git clone https://{c}@git.example.com/a.git",
    "pip install --index-url https://bot:{c}@pypi.example.com/simple a", "openssl rsa -passin pass:{c} -in a.pem",
    "helm upgrade a b --set auth.password={c}", "kubectl create secret generic a --from-literal=password={c}",
    "aws configure set aws_secret_access_key={c}", "python -c \"login(token='{c}')\"",
    "huggingface-cli login --token {c}", "wandb login --api-key={c}",
    "curl 'https://example.com/hook?token={c}&x=1'", "curl 'https://example.com/blob?sv=1&sig={c}'",
    "curl https://hooks.slack.com/services/T01/B02/{c}", "psql 'host=db user=app password={c} sslmode=require'",
)  # fmt: skip
STRINGS = (
    "postgres://app:{c}@db/app", "postgresql+psycopg2://app:{c}@db:5432/app?sslmode=require", "mysql://root:{c}@db/app",
    "mongodb+srv://app:{c}@cluster.example.com/app", "redis://:{c}@redis:6379/0", "amqp://guest:{c}@mq:5672/",
    "jdbc:postgresql://db/app?user=app&password={c}", "jdbc:sqlserver://db;user=sa;password={c};encrypt=true",
    "Server=db;Database=app;User Id=sa;Password={c};", "Data Source=db;User ID=sa;Pwd={c};Timeout=3",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={c};EndpointSuffix=core.windows.net",
    "Endpoint=sb://a.example.com/;SharedAccessKeyName=a;SharedAccessKey={c}", "app:{c}@tcp(db:3306)/app?parseTime=true",
    "https://example.com/a?sv=2024&sig={c}", "https://example.com/a?X-Amz-Signature={c}", "ftp://bot:{c}@example.com/a",
    "https://example.com/a?access_token={c}", "https://example.com/a?api_key={c}&b=1", "Bearer {c}01", "Basic {c}01=",
    "sftp://bot:{c}@example.com/a", "smtp://bot:{c}@mail:587", "ldap://cn=admin:{c}@ldap/", "s3://AKIA:{c}@bucket/a",
)  # fmt: skip
TOKENS = (
    "hf_{c}ABCDEFGHIJKLMNOPQR", "ghp_{c}ABCDEFGHIJKLMNOPQRSTUVWXYZ", "gho_{c}ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "github_pat_{c}ABCDEFGHIJKLMNOPQRSTUVWXYZ", "glpat-{c}ABCDEFGHIJ", "sk-{c}ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "sk-proj-{c}ABCDEFGHIJKLMNOP", "sk-ant-{c}ABCDEFGHIJKLMNOP", "xoxb-{c}-ABCDEFGH", "AIza{c}ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "eyJhbGciOiJIUzI1NiJ9.{c}ABCDEFG.{c}", "nvapi-{c}ABCDEFGHIJKLMNOP", "npm_{c}ABCDEFGHIJKLMNOPQRSTUVWXYZ", "sk_live_{c}ABCD",
    "SG.{c}ABCDEFGHIJKL.{c}ABCDEFGHIJKL", "hvs.{c}ABCDEFGHIJKLMNOP", "dckr_pat_{c}ABCDEFGHIJKL", "gsk_{c}ABCDEFGHIJKL",
    "-----BEGIN PRIVATE KEY-----\n{c}\n-----END PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\n{c}\n-----END OPENSSH PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----\n{c}\n-----END RSA PRIVATE KEY-----",
)  # fmt: skip
FILES = (
    (".netrc", "machine example.com login bot password {c}\n"),
    ("netrc", "machine example.com\n  login bot\n  password {c}\n"),
    (".pgpass", "db.example.com:5432:app:bot:{c}\n"),
    ("pgpass.conf", "*:*:app:bot:{c}\n"),
    ("config.json", '{{"auths": {{"registry.example.com": {{"auth": "{c}"}}}}}}'),
    (".dockerconfigjson", '{{"auths": {{"registry.example.com": {{"password": "{c}"}}}}}}'),
    ("app.json", '{{"db": {{"user": "app", "password": "{c}"}}}}'),
    ("nested.json", '{{"text": "{{\\"token\\": \\"{c}\\"}}"}}'),
    ("pretty.json", '{{\n  "apiKey" : "{c}",\n  "x": 1\n}}'),
    ("list.json", '[{{"name": "DB_PASSWORD", "value": "{c}"}}]'),
    ("keys.json", '{{"api_keys": ["{c}", "{c}"]}}'),
    ("service-account.json", '{{"type": "service_account", "private_key": "{c}"}}'),
    ("app.yaml", "db:\n  user: app\n  password: {c}\n"),
    ("quoted.yaml", "db:\n  password: '{c}'\n"),
    ("flow.yaml", "db: {{user: app, password: {c}, port: 5432}}\n"),
    ("block.yaml", "db:\n  password: |\n    {c}\n  port: 5432\n"),
    ("folded.yaml", "token: >-\n  {c}\n  {c}\n"),
    ("items.yaml", "api_keys:\n  - {c}\n  - {c}\nport: 1\n"),
    ("inline.yaml", "passwords: [{c}, {c}]\n"),
    ("words.yaml", "passphrase: one {c} two\n"),
    ("env.yaml", "env:\n- name: HF_TOKEN\n  value: {c}\n"),
    ("kubeconfig", "users:\n- name: a\n  user:\n    token: {c}\n"),
    ("kubeconfig2", "users:\n- name: a\n  user:\n    client-key-data: {c}\n"),
    ("app.toml", 'password = "{c}"\n'),
    ("table.toml", "[db]\nuser = \"app\"\nsecret_key = '{c}'\n"),
    ("multi.toml", 'password = """\n{c}\n"""\n'),
    ("app.ini", "[db]\npassword = {c}\n"),
    ("app.cfg", "[db]\npassword: {c}\n"),
    ("spaces.ini", "[db]\npassword = one {c} two\n"),
    ("application.properties", "spring.datasource.password={c}\n"),
    ("kafka.properties", 'sasl.jaas.config=PlainLoginModule required username="a" password="{c}";\n'),
    (".env", "HF_TOKEN={c}\nX=1\n"),
    ("quoted.env", 'export DB_PASSWORD="one {c} two"\n'),
    ("credentials", "[default]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\naws_secret_access_key = {c}\n"),
    (".npmrc", "//registry.npmjs.org/:_authToken={c}\n"),
    ("old.npmrc", "_auth={c}\n"),
    ("pip.conf", "[global]\nindex-url = https://bot:{c}@pypi.example.com/simple\n"),
    (".pypirc", "[pypi]\nusername = a\npassword = {c}\n"),
    (".git-credentials", "https://bot:{c}@github.com\n"),
    ("settings.xml", "<server><id>a</id><password>{c}</password></server>\n"),
    ("web.config", '<add key="a" password="{c}" />\n'),
    ("redis.conf", "port 6379\nrequirepass {c}\nmasterauth {c}\n"),
    ("my.cnf", "[client]\nuser=app\npassword={c}\n"),
    ("main.tf", 'variable "a" {{\n  password = "{c}"\n}}\n'),
    ("config.py", "PASSWORD = '{c}'\nconnect(password='{c}')\n"),
    ("config.rb", ":password => '{c}',\n"),
    ("config.js", "const a = {{ apiKey: '{c}' }};\n"),
    ("run.sh", "#!/bin/sh\nexport WANDB_API_KEY={c}\npython train.py --hub-token {c}\n"),
    ("wandb.yaml", "WANDB_API_KEY: {c}\n"),
    ("rclone.conf", "[s3]\nsecret_access_key = {c}\n"),
    ("tls.key", "{c}"),
    ("id_rsa", "{c}"),
    ("id_ed25519", "{c}"),
    ("db-password", "{c}"),
    (".htpasswd", "bot:{c}\n"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """One planted secret and where it is."""

    token: str
    place: str

    def spellings(self) -> set[str]:
        """Return the token as an output could show it."""
        once = base64.b64encode(self.token.encode()).decode()
        return {self.token, once, urllib.parse.quote(self.token, safe="")}


class Corpus:
    """Files by path, and what is planted in them."""

    def __init__(self) -> None:
        self.canaries: list[Canary] = []
        self.files: dict[str, str] = {}

    def plant(self, place: str, *, number: bool = False) -> str:
        """Return a fresh token; with `number`, one that YAML reads as a number."""
        count = len(self.canaries)
        token = f"747{count:03}747" if number else f"C4nary{count:03}Zq"
        self.canaries.append(Canary(token=token, place=place))
        return token

    def write(self, path: str, *objects: Any) -> None:
        """Add a file of objects."""
        self.files[path] = yaml.safe_dump_all(objects, sort_keys=False)

    def hits(self, text: str) -> list[str]:
        """Return the hiding places whose secret a text shows."""
        plain = "".join(text.split())
        if not any(start in plain for start in ("C4nary", "747", "QzRuYXJ5", "NzQ3")):
            return []
        found = (canary for canary in self.canaries if any(one in plain for one in canary.spellings()))
        return sorted({canary.place for canary in found})


def good() -> Corpus:
    """Secrets in files that are valid."""
    corpus = Corpus()
    for make in (
        _variables,
        _flags,
        _commands,
        _strings,
        _config_maps,
        _secrets,
        _lists,
        _jobs,
        _sized,
        _exceptions,
        _approvals,
        _policies,
    ):
        make(corpus)
    return corpus


def broken() -> Corpus:
    """Secrets in files with errors: what a message could quote."""
    corpus = Corpus()
    for make in (_wrong_types, _wrong_fields, _templates, _launch_lines, _broken_yaml, _broken_json, _bad_words):
        make(corpus)
    return corpus


def _meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "labels": {"team": "x"}, **more}


def _pod(name: str, **container: Any) -> dict[str, Any]:
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.example.com/a:1", **container}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _meta(name), "spec": spec}


def _job(name: str, **container: Any) -> dict[str, Any]:
    template = {"spec": _pod(name, **container)["spec"]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _meta(name), "spec": {"template": template}}


def _map(name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(name), "data": data}


def _secret(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": _meta(name), **fields}


def _variables(corpus: Corpus) -> None:
    env = [{"name": name, "value": corpus.plant(f"variable {name}")} for name in VARIABLES]
    corpus.write("jobs/variables.yaml", _pod("variables", env=env), _job("variables", env=env))
    keys = {name: corpus.plant(f"key of a ConfigMap {name}") for name in VARIABLES}
    corpus.write("jobs/keys.yaml", _map("keys", keys))


def _flags(corpus: Corpus) -> None:
    apart = [part for flag in FLAGS for part in (flag, corpus.plant(f"flag in a list {flag}"))]
    joined = [f"{flag}={corpus.plant(f'flag with = in a list {flag}')}" for flag in FLAGS]
    login = ["-u", f"bot:{corpus.plant('flag -u in a list')}", "-H", f"X-Api-Key: {corpus.plant('header in a list')}"]
    more = ["-D", f"db.password={corpus.plant('flag -D in a list')}", "-e", f"HF_TOKEN={corpus.plant('flag -e')}"]
    corpus.write("jobs/flags.yaml", _pod("flags", command=["serve"], args=[*apart, *joined, *login, *more]))
    corpus.write(
        "jobs/programs.yaml",
        _pod("programs", command=["sshpass", "-p", corpus.plant("sshpass in a list"), "ssh", "host"]),
        _pod("programs-2", command=["mysql", f"-p{corpus.plant('mysql in a list')}"]),
    )


def _commands(corpus: Corpus) -> None:
    lines = [command.format(c=corpus.plant(command)) for command in COMMANDS]
    lines += [f"python train.py {flag} {corpus.plant(f'flag in a script {flag}')} --lr 3e-4" for flag in FLAGS]
    corpus.write("jobs/commands.yaml", _job("commands", command=["bash", "-c", "\n".join(lines)]))
    pods = (_pod(f"command-{number}", command=["sh", "-c", line]) for number, line in enumerate(lines[:20]))
    corpus.write("jobs/pods.yaml", *pods)


def _strings(corpus: Corpus) -> None:
    texts = [text.format(c=corpus.plant(text)) for text in (*STRINGS, *TOKENS)]
    env = [{"name": f"VALUE_{number}", "value": text} for number, text in enumerate(texts)]
    corpus.write("jobs/strings.yaml", _pod("strings", env=env))
    texts = [text.format(c=corpus.plant(f"annotation {text}")) for text in (*STRINGS, *TOKENS[:4])]
    notes = {f"example.com/note-{number}": text for number, text in enumerate(texts)}
    applied = json.dumps({"data": {"password": corpus.plant("last applied")}})
    notes["kubectl.kubernetes.io/last-applied-configuration"] = applied
    noted = _map("noted", {"x": "z"})
    noted["metadata"]["annotations"] = notes
    corpus.write("jobs/notes.yaml", noted)


def _config_maps(corpus: Corpus) -> None:
    files = {name: content.format(c=corpus.plant(f"file {name}")) for name, content in FILES}
    corpus.write("jobs/files.yaml", _map("files", files))


def _secrets(corpus: Corpus) -> None:
    plain = {name: corpus.plant(f"stringData {name}") for name in ("a", "user", "config.yaml")}
    data = {name: base64.b64encode(corpus.plant(f"data {name}").encode()).decode() for name in ("b", "c")}
    both = _secret("plain", stringData=plain, data=data)
    both["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"stringData": plain}),
        "example.com/owner": "bot",
    }
    corpus.write("jobs/secrets.yaml", both)


def _lists(corpus: Corpus) -> None:
    """Plant secrets beside harmless objects, all in one line."""
    items = [
        _map("beside", {"x": "harmless"}),
        _secret("neighbour", stringData={"x": corpus.plant("neighbour in a JSON list")}),
        _pod("neighbour", env=[{"name": "DB_PASS", "value": corpus.plant("variable in a JSON list")}]),
    ]
    corpus.files["jobs/list.json"] = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def _jobs(corpus: Corpus) -> None:
    env = [{"name": "HF_TOKEN", "value": corpus.plant("variable of a TorchrunJob")}]
    command = f"python train.py --hub_token {corpus.plant('flag of a TorchrunJob')} --lr 3e-4"
    header = f"Authorization: Bearer {corpus.plant('header of a sync')}"
    env.append({"name": "GIT_CONFIG_VALUE_0", "value": header})
    spec = {"jobQueue": "h100", "numGPUs": 8, "command": command, "env": env}
    spec["workspaceStorage"] = {"source": "git", "url": "https://git.example.com/a.git", "ref": "v1"}
    corpus.write(
        "jobs/train.yaml",
        {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunJob", "metadata": _meta("train"), "spec": spec},
    )


def _training(corpus: Corpus, path: str, name: str, script: str) -> None:
    """Add a job that requests sizing, so that its launch line is read and quoted."""
    limits = {"nvidia.com/gpu": 8}
    container: dict[str, Any] = {
        "name": "pytorch",
        "image": "registry.example.com/a:1",
        "command": ["bash", "-c"],
        "args": [script],
    }
    container["resources"] = {"limits": limits, "requests": dict(limits)}
    container["env"] = [{"name": "HF_TOKEN", "value": corpus.plant(f"variable of {name}")}]
    template = {
        "spec": {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, "containers": [container]}
    }
    metadata = _meta(name)
    metadata["labels"]["autoconf-plugin-name"] = "resource-requirements-appwrapper"
    spec = {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template}}}
    corpus.write(path, {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": spec})


_LAUNCH = (
    "accelerate launch --num_processes 8 -m tuning.sft_trainer --model_name_or_path 'ibm-granite/granite-3.1-8b-instruct' "
    "--max_seq_length 4096 --per_device_train_batch_size=4 --hub_token {c}"
)


def _sized(corpus: Corpus) -> None:
    launch = _LAUNCH.format(c=corpus.plant("flag of a sized job"))
    login = f"huggingface-cli login --token {corpus.plant('command before a launch line')}"
    _training(corpus, "jobs/sized.yaml", "sized", f"{login}\n{launch}")


def _launch_lines(corpus: Corpus) -> None:
    """Plant secrets in launch lines that cannot be read: messages quote a part of them."""
    lines = (
        "HF_TOKEN={c} torchrun $(cat /etc/a) train.py --hub_token {c}", "python train.py --hub_token {c} $UNKNOWN",
        "curl -u bot:{c} https://a | bash", "if [ --token {c}", "accelerate launch $ARGS --hub_token={c} train.py",
        _LAUNCH + "; " + _LAUNCH, "./start --api-key {c}", "bash -c 'python $X --token {c}'", "torchrun https://bot:{c}@a/train.py",
        "accelerate launch --config_file https://bot:{c}@a/b.yaml train.py --model_name_or_path https://bot:{c}@a/model",
    )  # fmt: skip
    for number, line in enumerate(lines):
        script = line.format(c=corpus.plant(f"launch line {line}"))
        _training(corpus, f"jobs/launch-{number}.yaml", f"launch-{number}", script)


def _exceptions(corpus: Corpus) -> None:
    for number, reason in enumerate(
        ("see https://bot:{c}@example.com/a", "password: {c}", "run with --token {c} please")
    ):
        spec = {
            "rule": "no-host-path",
            "object": {"kind": "Pod", "name": f"none-{number}"},
            "reason": reason.format(c=corpus.plant(f"exception {reason}")),
            "owner": "platform",
            "expires": "2026-12-31",
        }
        exception = {
            "apiVersion": "gpureconciler.io/v1alpha1",
            "kind": "PolicyException",
            "metadata": {"name": f"e{number}"},
        }
        corpus.write(f"policies/e{number}.yaml", {**exception, "spec": spec})


def _approvals(corpus: Corpus) -> None:
    for number, reason in enumerate(("see https://bot:{c}@example.com/a", "password={c}", "with --api-key {c}")):
        spec = {"plan": f"sha256:{number:064}", "reason": reason.format(c=corpus.plant(f"approval {reason}"))}
        approval = {
            "apiVersion": "gpureconciler.io/v1alpha1",
            "kind": "PlanApproval",
            "metadata": {"name": f"a{number}"},
        }
        corpus.write(f"approvals/a{number}.yaml", {**approval, "spec": spec | {"expires": "2026-12-31"}})


def _policies(corpus: Corpus) -> None:
    """Plant a policy whose message shows the values of variables."""
    rule = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}
            ]
        },
        "validations": [
            {
                "expression": "!has(object.spec.containers[0].env)",
                "messageExpression": "'values: ' + object.spec.containers[0].env.map(e, e.value).join(' ')",
            }
        ],
    }
    group = "admissionregistration.k8s.io/v1"
    binding = {"policyName": "talkative", "validationActions": ["Warn"]}
    corpus.write(
        "policies/talkative.yaml",
        {"apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "talkative"}, "spec": rule},
        {"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b"}, "spec": binding},
    )
    env = [{"name": "DB_PASSWORD", "value": corpus.plant("variable in the message of a policy")}]
    corpus.write("jobs/talkative.yaml", _pod("talkative", env=env))


def _numbered(corpus: Corpus, path: str, place: str, text: str) -> None:
    corpus.files[path] = text.replace("NUMBER", corpus.plant(place, number=True))


_POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {team: x}}\nspec:\n  containers:\n  - name: c\n    image: a:1\n"


def _wrong_types(corpus: Corpus) -> None:
    """Plant values of another type than the schema's: their hints quote them."""
    for name in ("PGPASSWORD", "MYSQL_PWD", "API_TOKEN", "DB_PASS", "private_key"):
        text = f"{_POD}    env:\n    - name: {name}\n      value: NUMBER\n"
        _numbered(corpus, f"jobs/n-{name.lower().replace('_', '-')}.yaml", f"number of variable {name}", text)
        text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: n}}\ndata:\n  {name}: NUMBER\n"
        _numbered(corpus, f"jobs/m-{name.lower().replace('_', '-')}.yaml", f"number of key {name}", text)
    for field in ("stringData", "data"):
        head = f"apiVersion: v1\nkind: Secret\nmetadata: {{name: n}}\n{field}:\n  x: "
        _numbered(corpus, f"jobs/s-{field.lower()}.yaml", f"number in {field}", f"{head}NUMBER\n")
        _numbered(corpus, f"jobs/o-{field.lower()}.yaml", f"octal in {field}", f"{head}0NUMBER\n")
        _numbered(corpus, f"jobs/e-{field.lower()}.yaml", f"float in {field}", f"{head}NUMBER.5e3\n")
        _numbered(corpus, f"jobs/l-{field.lower()}.yaml", f"list in {field}", f"{head}[NUMBER]\n")
        _numbered(corpus, f"jobs/k-{field.lower()}.yaml", f"mapping in {field}", f"{head}{{y: NUMBER}}\n")
    _numbered(corpus, "jobs/octal.yaml", "octal variable", f"{_POD}    env:\n    - {{name: DB_PASS, value: 0NUMBER}}\n")
    _numbered(corpus, "jobs/args.yaml", "number after a flag", f"{_POD}    args: [--password, NUMBER]\n")
    _numbered(corpus, "jobs/args2.yaml", "octal after a flag", f"{_POD}    args: [--password, 0NUMBER]\n")


def _wrong_fields(corpus: Corpus) -> None:
    for number, field in enumerate(("passwords", "stringdata", "value", "spec", "secrets")):
        corpus.write(f"jobs/f{number}.yaml", _secret("f", **{field: {"a": corpus.plant(f"unknown field {field}")}}))
        corpus.write(f"jobs/g{number}.yaml", _secret("g", **{field: corpus.plant(f"unknown scalar {field}")}))
        corpus.write(f"jobs/h{number}.yaml", _secret("h", **{field: [corpus.plant(f"unknown list {field}")]}))
    corpus.write("jobs/not-base64.yaml", _secret("i", data={"x": corpus.plant("data that is not base64") + "%%"}))
    corpus.write("jobs/type.yaml", _secret("j", type=7, stringData={"x": corpus.plant("Secret with a wrong type")}))
    corpus.write(
        "jobs/value.yaml", _pod("v", env=[{"name": "API_TOKEN", "value": {"x": corpus.plant("mapping as value")}}])
    )
    corpus.write(
        "jobs/image.yaml", _pod("w", env=[{"name": "API_TOKEN", "valueFrom": corpus.plant("wrong valueFrom")}])
    )
    url = f"https://bot:{corpus.plant('URL in a wrong field')}@example.com"
    corpus.write("jobs/policy.yaml", _pod("y", imagePullPolicy=url))
    corpus.write(
        "jobs/quantity.yaml", _pod("z", resources={"limits": {"cpu": f"--token {corpus.plant('flag as quantity')}"}})
    )


def _templates(corpus: Corpus) -> None:
    wrapped = {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": _meta("wrapped"),
        "spec": {
            "components": [{"template": _secret("inner", stringData={"x": corpus.plant("Secret in a template")})}]
        },
    }
    corpus.write("jobs/wrapped.yaml", wrapped)


def _broken_yaml(corpus: Corpus) -> None:
    head = "apiVersion: v1\nkind: Secret\nmetadata: {name: b}\nstringData:\n  password: "
    bodies = (
        "{c}\n bad: [\n", "*{c}\n", "!{c} x\n", "&{c}\n", "%{c}\n", "@{c}\n", "`{c}`\n", "'{c}\n", '"{c}\n', "{c}: x\n",
        "[{c}\n", "{{{c}\n", "|9\n{c}\n", ">\n{c}\nx\n", "\t{c}\n", '"\\q{c}"\n', "{c} # x\n\tb: 1\n", "? {c}\n",
        "!!int {c}\n", "!!binary {c}*\n", "x\n  password: {c}\n", "<<: {c}\n", "- {c}\n", "{c}\n---x\n", "{c}\n...\nx\n",
    )  # fmt: skip
    for number, body in enumerate(bodies):
        corpus.files[f"jobs/y{number:02}.yaml"] = head + body.format(c=corpus.plant(f"broken YAML {body!r}"))


def _broken_json(corpus: Corpus) -> None:
    for number, end in enumerate(('"', '"}', '",}}', '" x}}', '\n"}}', '\\q"}}', '"}} x')):
        text = (
            '{"apiVersion": "v1", "kind": "Secret", "stringData": {"p": "' + corpus.plant(f"broken JSON {end!r}") + end
        )
        corpus.files[f"jobs/j{number}.json"] = text


def _bad_words(corpus: Corpus) -> None:
    """Plant secrets in fields of our own kinds that messages quote."""
    for number, field in enumerate(("rule", "expires", "owner")):
        spec: dict[str, Any] = {"rule": "no-host-path", "object": {"kind": "Pod", "name": "x"}}
        spec |= {"reason": "x", "owner": "x", "expires": "2020-01-01"}
        spec[field] = f"https://bot:{corpus.plant(f'exception with a wrong {field}')}@example.com"
        exception = {
            "apiVersion": "gpureconciler.io/v1alpha1",
            "kind": "PolicyException",
            "metadata": {"name": f"b{number}"},
        }
        corpus.write(f"policies/b{number}.yaml", {**exception, "spec": spec})
    spec = {"jobQueue": "nowhere", "numGPUs": 8, "command": "x"}
    spec |= {"workspaceStorage": {"source": f"https://bot:{corpus.plant('URL as a choice')}@example.com", "url": "x"}}
    url = f"https://bot:{corpus.plant('workspace of a TorchrunJob')}@git.example.com/a.git"
    corpus.write(
        "jobs/url.yaml",
        {
            "apiVersion": "torchrun.ai/v1alpha1",
            "kind": "TorchrunJob",
            "metadata": _meta("url"),
            "spec": {**spec, "jobQueue": "h100", "workspaceStorage": {"source": "git", "url": url}},
        },
    )
    spec |= {"env": [{"name": "API_TOKEN", "value": [corpus.plant("list as a variable of a TorchrunJob")]}]}
    job = {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunJob", "metadata": _meta("bad"), "spec": spec}
    corpus.write("jobs/bad.yaml", job)


def places(corpora: tuple[Corpus, ...]) -> Iterator[str]:
    """Yield all hiding places."""
    for corpus in corpora:
        yield from (canary.place for canary in corpus.canaries)
