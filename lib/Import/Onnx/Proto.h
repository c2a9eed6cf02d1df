// SPDX-License-Identifier: Apache-2.0
// The generated ONNX messages. Included by few files: they compile slowly and stay inside this
// room.
#pragma once

#include "autopar-onnx.pb.h"

namespace onnx = ::autopar_onnx;
