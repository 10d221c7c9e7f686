#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: keys.sh BUILD_DIR
# pmx-ctl key as those use it who set up a cluster: secrets, an authority, certificates, a list of revoked keys; what is refused, with
# which exit code; that no secret is printed; public keys and signatures beside those of Python's cryptography. Needs neither root nor
# hugepages.
set -u
. "$(dirname "$0")/common.bash"
top=$(cd "$(dirname "$0")/../.." && pwd)
ctl=$build/app/pmx-ctl
log=$dir/log
umask 022
cd "$dir" || exit 2

# says NAME CODE PATTERN ARGUMENTS...: pmx-ctl key ends with CODE, and has a line with PATTERN on its standard output, or if it
# fails on its standard error and nothing on the other
says() {
	local name=$1 want=$2 pattern=$3 code=0 where=out
	shift 3
	"$ctl" key "$@" >"$dir/out" 2>"$dir/err" </dev/null || code=$?
	[ "$want" -eq 0 ] || where=err
	cat "$dir/out" "$dir/err" >"$log"
	cat "$log" >>"$dir/all"
	if [ $code != "$want" ]; then
		not_ok "keys__$name" "exit code $code, not $want: key ${*@Q}" "$log"
	elif ! grep -Eq -- "$pattern" "$dir/$where"; then
		not_ok "keys__$name" "it does not say '$pattern': key ${*@Q}" "$log"
	elif [ $where = err ] && [ -s "$dir/out" ]; then
		not_ok "keys__$name" "it fails and prints something: key ${*@Q}" "$log"
	else
		ok "keys__$name"
	fi
}

# same NAME A B
same() { [ "$2" = "$3" ] && [ -n "$2" ] && ok "keys__$1" || not_ok "keys__$1" "'$2' is not '$3'"; }

# json NAME EXPRESSION ARGUMENTS...: what pmx-ctl --json key prints is JSON, d, of which the Python expression holds
json() {
	local name=$1 expression=$2
	shift 2
	"$ctl" --json key "$@" >"$log" 2>&1
	python3 -c 'import json, re, sys, time
d = json.load(open(sys.argv[1]))
sys.exit(not eval("(" + sys.argv[2] + ")"))' "$log" "$expression" && ok "keys__$name" || not_ok "keys__$name" "key ${*@Q}" "$log"
}

base64_line='^[A-Za-z0-9+/]{43}=$'

# ------------------------------------------------------------------ secrets
says generate_node 0 "$base64_line" generate node.key
node=$(cat out) plain_node=$(sed 's/+/\\+/g' out) # the latter for patterns
says generate_authority 0 "$base64_line" generate authority.key --kind authority
authority=$(cat out)
says generate_cluster 0 '^cluster.key: every node of the cluster needs this same file' generate cluster.key --kind cluster
(umask 0; "$ctl" key generate open.key; umask 077; "$ctl" key generate closed.key) >"$log" 2>&1
same modes "$(stat -c %a node.key authority.key cluster.key open.key closed.key | paste -sd' ')" "600 600 600 600 600"
same kinds "$(cut -d' ' -f1 node.key authority.key cluster.key | paste -sd' ')" "pmx-node-secret pmx-authority-secret pmx-cluster-secret"
says generate_never_over_a_file 1 'node.key: it is there, and no secret is written over it' generate node.key
says generate_into_no_folder 1 'no/folder.key: No such file' generate no/folder.key
says generate_wrong_kind 2 "'rsa'.*node, authority and cluster" generate new.key --kind rsa
[ ! -e new.key ] && ok keys__generate_wrong_kind_leaves_nothing || not_ok keys__generate_wrong_kind_leaves_nothing ""

says public_node 0 "$base64_line" public node.key
same public_is_what_generate_said "$(cat out)" "$node"
cp out node.pub
says public_authority 0 "$base64_line" public authority.key
same public_of_an_authority "$(cat out)" "$authority"
says public_of_a_cluster 1 'secret has no public key' public cluster.key
says public_of_a_public_key 0 "^$plain_node\$" public node.pub

# ------------------------------------------------------------------ certificates
says certify_a_key 0 '^node.cert: node 3, head has this public key until ....-..-.. ..:..:.. UTC$' \
	certify --authority authority.key --node 3 --name head "$node" -w node.cert
says certify_a_secret_of_a_node 0 'node 4 has' certify --authority authority.key --node 4 node.key -w four.cert
says certify_a_file_of_a_public_key 0 'node 5 has' certify --authority authority.key --node 5 node.pub -w five.cert
says certify_again 0 'node 3, head' certify --authority authority.key --node 3 --name head --days 400 node.cert -w node.cert
same certificate_mode "$(stat -c %a node.cert)" 644
same nothing_else_is_left "$(echo node.cert*)" node.cert
for what in 'kind  *certificate' 'node  *3' 'name  *head' "public key  *$plain_node" 'fingerprint  *[0-9a-f:]{39}' 'from .* UTC' 'until .* UTC' \
	'days left  *(399|400)' 'state  *valid' 'signature  *not checked'; do
	says "show_$(cut -d' ' -f1 <<<"$what")" 0 "^$what" show node.cert
done
says show_name_of_none 0 '^name  *-$' show four.cert
says show_signature 0 '^signature  *good$' show node.cert --authority authority.key
says show_signature_by_a_public_key 0 '^signature  *good$' show node.cert --authority "$authority"
"$ctl" key generate other.key --kind authority >other.pub
code=0
"$ctl" key show node.cert --authority other.pub >"$log" 2>&1 || code=$?
[ $code = 1 ] && grep -q '^signature *forged' "$log" && ok keys__show_of_another_authority || not_ok keys__show_of_another_authority "exit code $code" "$log"
json show_json "d['kind'] == 'certificate' and d['node'] == 3 and d['name'] == 'head' and d['public_key'] == '$node' and d['state'] == 'valid' and
	d['signature'] == 'good' and d['until_s'] - d['from_s'] == 400 * 86400 + 3600 and abs(d['from_s'] + 3600 - time.time()) < 600 and
	d['days_left'] in (399, 400) and re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', d['until'])" show node.cert --authority authority.key
json show_json_of_a_secret "set(d) == {'file', 'kind', 'public_key', 'fingerprint'} and d['public_key'] == '$node' and d['kind'] == 'node secret'" show node.key
json show_json_of_a_cluster "set(d) == {'file', 'kind', 'fingerprint'}" show cluster.key
fingerprint=$("$ctl" key show node.key | sed -n 's/^fingerprint *//p')
says show_fingerprint 0 "^fingerprint  *$fingerprint\$" show node.cert
says show_public 0 '^kind  *public key$' show node.pub

sed 's/.\{60\}$//' node.cert >cut.cert
says show_cut 1 'cut.cert: it was cut or changed' show cut.cert
python3 -c 'import base64
word, text = open("node.cert").read().split()
body = bytearray(base64.b64decode(text))
body[3] = 4
print(word, base64.b64encode(body).decode())' >forged.cert
says show_forged_unchecked 0 '^node  *4$' show forged.cert
code=0
"$ctl" key show forged.cert --authority "$authority" >"$log" 2>&1 || code=$?
[ $code = 1 ] && grep -q '^state *forged' "$log" && ok keys__show_forged || not_ok keys__show_forged "exit code $code" "$log"
says certify_forged 1 'another authority signed this certificate' certify --authority authority.key --node 4 forged.cert -w new.cert

says certify_over_another_node 1 'node.cert: the certificate of node 3 is there, and that of node 4 does not replace it' certify --authority authority.key --node 4 "$node" -w node.cert
says certify_over_a_secret 1 'node.key: something else than a certificate is there' certify --authority authority.key --node 3 node.pub -w node.key
grep -q '^pmx-node-secret ' node.key && ok keys__certify_leaves_a_secret || not_ok keys__certify_leaves_a_secret ""
says certify_by_a_node 1 'the secret of a node, and the secret of an authority is needed' certify --authority node.key --node 3 node.pub -w new.cert
says certify_itself 1 "authority's own public key" certify --authority authority.key --node 3 "$authority" -w new.cert
says certify_the_authority 1 'its kind is authority secret, and the public key of a node is needed' certify --authority authority.key --node 3 authority.key -w new.cert
says certify_no_key 1 "'nonsense': neither a public key" certify --authority authority.key --node 3 nonsense -w new.cert
says certify_no_authority 2 'it needs --authority' certify --node 3 "$node" -w new.cert
says certify_no_file 2 'it needs --authority' certify --authority authority.key --node 3 "$node"
for number in -1 65535 x 3x ''; do says "certify_node_$number" 2 "--node '$number': not a number from 0 to 65534" certify --authority authority.key "--node=$number" "$node" -w new.cert; done
for days in 0 3651 x -5; do says "certify_days_$days" 2 "--days '$days': not a number from 1 to 3650" certify --authority authority.key --node 3 "--days=$days" "$node" -w new.cert; done
says certify_name 2 "at most 32 letters" certify --authority authority.key --node 3 --name 'a b' "$node" -w new.cert
says certify_long_name 2 "at most 32 letters" certify --authority authority.key --node 3 --name "$(printf 'x%.0s' {1..33})" "$node" -w new.cert
[ ! -e new.cert ] && ok keys__refusals_leave_nothing || not_ok keys__refusals_leave_nothing ""

# ------------------------------------------------------------------ revoked keys
says revoke 0 "^revoked: has $plain_node; 'pmx-ctl reload'" revoke revoked "$node"
says revoke_again 0 "^revoked: has $plain_node" revoke revoked node.cert
says revoke_another 0 'has' revoke revoked open.key
same revoked_lines "$(grep -Ec "$base64_line" revoked)" 2
same revoked_mode "$(stat -c %a revoked)" 644
says revoke_into_a_secret 1 'node.key:1: it is no public key' revoke node.key "$node"
echo 'node 7' >>revoked
says revoke_into_a_wrong_list 1 'revoked:4: it is no public key' revoke revoked "$authority"
json revoke_json "d == {'file': 'list', 'public_key': '$node'}" revoke list node.pub

# ------------------------------------------------------------------ refusals
says no_command 2 'generate, public, certify, show and revoke'
says wrong_command 2 "'sign'.*generate, public, certify, show and revoke" sign node.key
says too_few_words 2 'pmx-ctl key show FILE' show
says too_many_words 2 'pmx-ctl key public FILE' public node.key node.key
says an_option_of_another_command 2 'pmx-ctl key generate FILE' generate new.key --node 3
says show_nothing 1 'nothing: No such file' show nothing
says show_something_else 1 'it is no file of pmx-ctl key' show "$top/README.md"
says show_a_folder 1 'it is no regular file' show .
code=0
"$ctl" peers --authority x >"$log" 2>&1 || code=$?
[ $code = 2 ] && grep -q 'are options of key' "$log" && ok keys__options_of_key || not_ok keys__options_of_key "exit code $code" "$log"
for mode in 640 604 660; do
	chmod $mode node.key
	says "mode_$mode" 1 "node.key: others than its owner may read or write it \(mode 0$mode\): chmod 600" public node.key
done
chmod 600 node.key
ln -s nowhere link
says a_link_to_nothing 1 'link: No such file' public link
says generate_through_a_link 1 'link: it is there' generate link
if [ "$(id -u)" -eq 0 ]; then
	chown 65534 closed.key
	says of_another_user 1 'it belongs to user 65534, and must to user 0' public closed.key
	chown 0 closed.key
else
	echo "ok keys__of_another_user # SKIP only root can give a file away"
fi

# none of all that was printed has a secret
leaks=0
for file in *.key; do grep -qF -- "$(cut -d' ' -f2 "$file")" "$dir/all" && leaks=1; done
[ $leaks = 0 ] && [ -s "$dir/all" ] && ok keys__no_secret_is_printed || not_ok keys__no_secret_is_printed "one is"

# ------------------------------------------------------------------ beside another implementation
if python3 -c 'import cryptography' 2>/dev/null; then
	CTL=$ctl python3 - >"$log" 2>&1 <<-'END' && ok keys__python_agrees || not_ok keys__python_agrees "" "$log"
		import base64, hashlib, os, struct, subprocess
		from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
		from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
		from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

		def bytes_of(name):
		    return base64.b64decode(open(name).read().split()[-1], validate=True)

		def public(key):
		    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

		node = public(X25519PrivateKey.from_private_bytes(bytes_of("node.key")))
		assert node == bytes_of("node.pub"), "the node's public key"
		authority = Ed25519PrivateKey.from_private_bytes(bytes_of("authority.key"))
		cert = bytes_of("node.cert")
		label = b"pmx-dpdk certificate 1"
		authority.public_key().verify(cert[84:], label + cert[:84])
		assert authority.sign(label + cert[:84]) == cert[84:], "the signature"
		version, zero, number, name, key, since, until = struct.unpack(">BBH32s32sQQ", cert[:84])
		assert (version, zero, number, name.rstrip(b"\0"), key) == (1, 0, 3, b"head", node), "the fields"
		digest = hashlib.sha256(b"pmx-dpdk fingerprint 1" + node).hexdigest()
		shown = subprocess.run([os.environ["CTL"], "key", "show", "node.cert"],
		                       capture_output=True, text=True).stdout
		assert ":".join(digest[i:i + 4] for i in range(0, 32, 4)) in shown, "the fingerprint"
		# and one that Python signs is good here
		body = struct.pack(">BBH32s32sQQ", 1, 0, 9, b"python", node, since, until)
		with open("python.cert", "w") as f:
		    print("pmx-certificate", base64.b64encode(body + authority.sign(label + body)).decode(), file=f)
	END
	says python_signs 0 '^signature  *good$' show python.cert --authority "$authority"
else
	echo "ok keys__python_agrees # SKIP NOT COMPARED WITH ANOTHER IMPLEMENTATION: needs python3-cryptography"
fi

# ------------------------------------------------------------------ what a shell offers
offers() {
	PATH=$build/app:$PATH bash -c '. "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _pmx "$1"; echo "${COMPREPLY[*]}"' - \
		"$top/dpdk-config/completions/pmx" "$@"
}
same completion_key "$(offers pmx-ctl ke)" key
same completion_commands "$(offers pmx-ctl key '')" "generate public certify show revoke"
same completion_a_command "$(offers pmx-ctl key cer)" certify
same completion_files "$(offers pmx-ctl key show n)none" none
same completion_options "$(offers pmx-ctl key certify --au | tr ' ' '\n' | sort -u)" --authority
same completion_others "$(offers pmx-ctl 'do')" doctor
exit $failed
