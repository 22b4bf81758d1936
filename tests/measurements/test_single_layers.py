"""The table of single layers: decoded, with times in seconds."""

import gzip
from pathlib import Path

import pytest

from trainfare.measurements.single_layers import SOURCE, single_layers

CONVOLUTION = (
    "activation_fct,batchsize,channels_in,channels_out,gpu,kernelsize,matsize,optimizer,padding,precision,strides,"
    "timeUsed_max,timeUsed_median,timeUsed_min,timeUsed_std,use_bias\n"
    "1,9,100,97,0,4,71,6,1,32,2,3.7,3.4,3.3,0.1,True\n"
    "0,35,1040,749,0,7,7,0,0,32,4,77.4,77.3,77.2,0.0,False\n"
    "0,35,1040,749,0,7,7,0,0,32,4,,,,,False\n"
)
DENSE = (
    "activation_fct,batchsize,dim_input,dim_output,gpu,optimizer,precision,"
    "timeUsed_max,timeUsed_median,timeUsed_min,timeUsed_std\n"
    "3,30,3263,3675,0,5,16,2.4,2.3,2.2,0.04\n"
)


def written(folder: Path, name: str, text: str) -> Path:
    own = folder / SOURCE
    own.mkdir(exist_ok=True)
    with gzip.open(own / name, "wt", encoding="utf-8") as file:
        file.write(text)
    return folder


def test_codes_are_decoded(tmp_path: Path) -> None:
    trained, forward = single_layers(written(tmp_path, "convolution_1080ti.csv.gz", CONVOLUTION))
    assert (trained.gpu, trained.activation, trained.optimizer, trained.dtype) == (
        "GTX 1080 Ti",
        "relu",
        "rmsprop",
        "float32",
    )
    assert (trained.padded, trained.bias, trained.side, trained.kernel, trained.stride) == (True, True, 71, 4, 2)
    assert (forward.activation, forward.optimizer, forward.padded, forward.bias) == (None, None, False, False)


def test_times_are_seconds_and_rows_without_one_are_left_out(tmp_path: Path) -> None:
    rows = single_layers(written(tmp_path, "convolution_K40.csv.gz", CONVOLUTION))
    assert [row.seconds for row in rows] == pytest.approx([3.4e-3, 77.3e-3])


def test_dense_layer_is_one_pixel_with_a_bias(tmp_path: Path) -> None:
    (row,) = single_layers(written(tmp_path, "dense_k80.csv.gz", DENSE))
    assert (row.kind, row.gpu, row.side, row.kernel, row.bias) == ("dense", "K80", 1, 1, True)
    assert (row.channels_in, row.channels_out, row.optimizer, row.dtype) == (3263, 3675, "adam", "float16")


def test_folder_without_the_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=SOURCE):
        single_layers(tmp_path)
