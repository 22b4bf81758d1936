"""Small price tables in the formats of SkyPilot and gpuhunt, written by hand, with the peculiarities of real ones."""

from pathlib import Path

SKYPILOT_AWS = """\
InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone,Arch
c5.large,,,2.0,4.0,,0.085,0.031,us-east-1,use1-az1,x86_64
g4dn.xlarge,T4,1.0,4.0,16.0,"{'Gpus': [{'Name': 'T4', 'Count': 1.0}]}",0.5,0.25,us-east-1,use1-az1,x86_64
g4dn.xlarge,T4,1.0,4.0,16.0,"{'Gpus': [{'Name': 'T4', 'Count': 1.0}]}",0.5,0.20,us-east-1,use1-az2,x86_64
g4dn.xlarge,T4,1.0,4.0,16.0,,0.526,,us-east-2,use2-az1,x86_64
g6f.large,L4,0.0,2.0,8.0,,0.21,0.08,us-east-1,use1-az2,x86_64
g6e.48xlarge,L40S,8.0,192.0,1536.0,,30.13118,30.131200,us-east-1,use1-az2,x86_64
g9.new,T4,2.0,8.0,32.0,,0.9,,us-east-1,use1-az2,x86_64
p3.2xlarge,V100,1.0,8.0,61.0,,3.06,1.1,us-east-1,use1-az2,x86_64
dl1.24xlarge,Gaudi HL-205,8.0,96.0,768.0,,13.1,4.1,us-east-1,use1-az2,x86_64
g5.xlarge,A10G,1.0,4.0,16.0,,0.0,,us-east-1,use1-az2,x86_64
g5.2xlarge,A10G,1.0,8.0,32.0,,,,us-east-1,use1-az2,x86_64
g5.4xlarge,A10G,1.0,16.0,64.0,,soon,nan,us-east-1,use1-az2,x86_64
g5.8xlarge,A10G
"""

SKYPILOT_GCP = """\
InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice
a2-highgpu-1g,12.0,85.0,,,,us-central1,us-central1-a,0.73948,0.29576
n1-standard-8,8.0,30.0,,,,us-central1,us-central1-a,0.379998,0.08
n1-standard-8,8.0,30.0,,,,us-central1,us-central1-b,0.379998,0.08
g2-standard-4,4.0,16.0,,,,us-central1,us-central1-a,0.146,0.05
g2-standard-8,8.0,32.0,,,,us-central1,us-central1-a,0.293,0.10
,,,A100,1,A100,us-central1,us-central1-a,2.933908,1.1
,,,A100,1,A100,us-central1,us-central1-f,2.933908,1.1
,,,T4,1,T4,us-central1,us-central1-a,0.35,0.14
,,,T4,1,T4,us-central1,us-central1-b,0.35,0.11
,,,L4,1,L4,us-central1,us-central1-a,0.56,0.0
,,,tpu-v6e-1,1,tpu-v6e-1,asia-east1,asia-east1-c,700.0,700.0
,,,tpu-v6e-8,1,tpu-v6e-8,us-east1,us-east1-d,21.6,5.18666
"""

GPUHUNT = """\
instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,provider
p4d.24xlarge,us-east-1,21.0,96,1152.0,8,A100,40.0,False,,aws
p4d.24xlarge,us-east-1,9.0,96,1152.0,8,A100,40.0,True,,aws
p4de.24xlarge,us-east-1,27.0,96,1152.0,8,A100,80.0,False,,aws
p4de.24xlarge,us-east-1,27.0,96,1152.0,8,A100,80.0,True,,aws
gpu_1x_a100,us-west-1,1.1,30,200.0,1,A100,40.0,False,,lambdalabs
m5.large,us-east-1,0.1,2,8.0,0,,,False,,aws
g6f.large,us-east-1,0.2,2,8.0,0,L4,,False,,aws
g5.xlarge,us-east-1,0,4,16.0,1,A10G,24.0,False,,aws
Standard_NV6ads_A10_v5,eastus,0.45,6,55.0,0.167,A10,4.0,False,,azure
"""


def write_skypilot(folder: Path, provider: str, text: str) -> Path:
    """Write the table at the path that SkyPilot's repository uses, which names the provider."""
    path = folder / "catalogs" / "v8" / provider / "vms.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
