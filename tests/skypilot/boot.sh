#!/bin/bash
# The first process of an instance: it makes a user as cloud-init does, starts sshd, and waits for orphans, as every first
# process must. Arguments: its name, its address, a Python 3.10, uv, and the address of the cloud.
set -e
chmod 755 /root
chmod 755 /
useradd -u 4242 -s /bin/bash -p "*" -d /home/ubuntu ubuntu
echo "ubuntu ALL=(ALL) NOPASSWD:ALL" > /etc/sudoers.d/ubuntu
home=/home/ubuntu path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p $home/.ssh $home/.local/bin $home/.config/uv
mv /.keys $home/.ssh/authorized_keys
cp "$4" $home/.local/bin/uv
printf "no-index = true\nfind-links = [\"/opt/wheels-of-the-rig\"]\npython-downloads = \"never\"\n" > $home/.config/uv/uv.toml
printf "[global]\nno-index = true\nfind-links = /opt/wheels-of-the-rig\n" > $home/.pip.conf
chown -R ubuntu:ubuntu $home/.ssh $home/.local $home/.config $home/.pip.conf
chmod 700 $home/.ssh
ln -sf "$3" /usr/local/bin/python3.10
printf "127.0.0.1 localhost\n%s %s\n" "$2" "$1" > /etc/hosts
printf "#!/bin/sh\ntouch /run/off\nkill -TERM 1\n" > /usr/local/sbin/shutdown
chmod 755 /usr/local/sbin/shutdown
cat > /run/sshd_config <<END
Port 22
HostKey /run/host_key
UsePAM no
UseDNS no
PasswordAuthentication no
PrintMotd no
MaxStartups 100
MaxSessions 100
AcceptEnv *
Subsystem sftp internal-sftp
SetEnv PATH=$path LANG=C.UTF-8 AWS_ENDPOINT_URL=$5 AWS_CONTAINER_CREDENTIALS_FULL_URI=http://127.0.0.1:9911/role
END
ssh-keygen -q -t ed25519 -N "" -f /run/host_key
mkdir -p /run/sshd
# SkyPilot's timer on the instance uses the role of the instance and nothing else.
mkdir -p /run/role
cat > /run/role/role <<END
{"AccessKeyId": "testing", "SecretAccessKey": "testing", "Token": "testing", "Expiration": "2099-01-01T00:00:00Z"}
END
trap "exit 0" TERM
env -i PATH=$path python3 -m http.server --bind 127.0.0.1 --directory /run/role 9911 > /dev/null 2>&1 &
env -i PATH=$path /usr/sbin/sshd -D -f /run/sshd_config -E /run/sshd.log &
while :; do wait -n || sleep 1; done
