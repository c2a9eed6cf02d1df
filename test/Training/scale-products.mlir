// RUN: split-file %s %t
// RUN: autopar-opt %t/net.mlir --autopar-scale-products 2>&1 | FileCheck %s
// RUN: autopar-opt %t/net.mlir --autopar-scale-products="keep=gate*" 2>&1 | FileCheck %s --check-prefix=KEEP
// RUN: autopar-opt %t/step.mlir --autopar-scale-products --autopar-build-training-step="loss=mse(y,t)" 2>/dev/null | FileCheck %s --check-prefix=STEP
// RUN: not autopar-opt %t/net.mlir --autopar-scale-products="keep=door" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not autopar-opt %t/last.mlir --autopar-scale-products 2>&1 | FileCheck %s --check-prefix=NONE

// Products with weights are scaled, but for the last one, for what only decides a choice, for what has uneven rows, and for
// products of two values.
// CHECK: remark: 2 products are computed in floats of 8 bits
// CHECK: %[[A:.*]] = autopar.dot_general %arg0, %{{.*}} contract [1] x [0] scaled_to f8E4M3FN {autopar.id = "gate"}
// CHECK: autopar.dot_general %arg0, %{{.*}} contract [1] x [0] {autopar.id = "router"}
// CHECK: autopar.dot_general %[[A]], %arg0 contract [1] x [1] {autopar.id = "scores"}
// CHECK: autopar.dot_general {{.*}} {autopar.id = "uneven"}
// CHECK: autopar.dot_general {{.*}} scaled_to f8E4M3FN {autopar.id = "up"}
// CHECK: autopar.dot_general {{.*}} {autopar.id = "head"}

// KEEP: remark: 1 product is computed in floats of 8 bits
// KEEP: autopar.dot_general {{.*}} {autopar.id = "gate"}

// Gradients of what is multiplied with weights are scaled as well, gradients of weights are not.
// STEP: autopar.dot_general {{.*}} scaled_to f8E4M3FN {autopar.id = "fc"
// STEP: autopar.dot_general {{.*}} {autopar.id = "head"
// STEP-DAG: autopar.dot_general {{.*}} scaled_to f8E4M3FN {autopar.id = "mid/vjp.0"
// STEP-DAG: autopar.dot_general {{.*}}] {autopar.id = "mid/vjp.1"
// STEP-DAG: autopar.dot_general {{.*}}] {autopar.id = "fc/vjp.1"

// NAME: error: keep-bf16: no parameter is called "door"; names as in the model file, * stands for any characters
// NONE: error: no product can be computed in 8 bits: expected one of f32 or bf16 with a weight of rows and columns that are multiples of 16, before the last; compile with --precision bf16 or f32

//--- net.mlir
autopar.origin @w : tensor<16x16xbf16> in "model.onnx" at 0
autopar.origin @r : tensor<16x16xbf16> in "model.onnx" at 512
autopar.origin @n : tensor<32x24xbf16> in "model.onnx" at 1024
autopar.origin @u : tensor<24x16xbf16> in "model.onnx" at 2560
func.func @main(%x: tensor<32x16xbf16>, %w: tensor<16x16xbf16> {autopar.name = "gate.weight", autopar.origin = @w},
                %r: tensor<16x16xbf16> {autopar.name = "router", autopar.origin = @r},
                %n: tensor<32x24xbf16> {autopar.name = "n", autopar.origin = @n},
                %u: tensor<16x16xbf16> {autopar.name = "u", autopar.origin = @r},
                %v: tensor<16x16xbf16> {autopar.name = "up.weight", autopar.origin = @r})
    -> (tensor<32x16xbf16> {autopar.name = "y"}, tensor<32x1xi64> {autopar.name = "choice"}) {
  %a = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "gate"} : (tensor<32x16xbf16>, tensor<16x16xbf16>) -> tensor<32x16xbf16>
  %t = autopar.dot_general %x, %r contract [1] x [0] {autopar.id = "router"} : (tensor<32x16xbf16>, tensor<16x16xbf16>) -> tensor<32x16xbf16>
  %values, %choice = autopar.top_k %t dim 1 : (tensor<32x16xbf16>) -> (tensor<32x1xbf16>, tensor<32x1xi64>)
  %s = autopar.dot_general %a, %x contract [1] x [1] {autopar.id = "scores"} : (tensor<32x16xbf16>, tensor<32x16xbf16>) -> tensor<32x32xbf16>
  %b = autopar.dot_general %s, %n contract [1] x [0] {autopar.id = "uneven"} : (tensor<32x32xbf16>, tensor<32x24xbf16>) -> tensor<32x24xbf16>
  %c = autopar.dot_general %b, %b contract [1] x [1] {autopar.id = "square"} : (tensor<32x24xbf16>, tensor<32x24xbf16>) -> tensor<32x32xbf16>
  %d = autopar.dot_general %c, %x contract [1] x [0] {autopar.id = "mix"} : (tensor<32x32xbf16>, tensor<32x16xbf16>) -> tensor<32x16xbf16>
  %e = autopar.dot_general %d, %v contract [1] x [0] {autopar.id = "up"} : (tensor<32x16xbf16>, tensor<16x16xbf16>) -> tensor<32x16xbf16>
  %y = autopar.dot_general %e, %u contract [1] x [0] {autopar.id = "head"} : (tensor<32x16xbf16>, tensor<16x16xbf16>) -> tensor<32x16xbf16>
  return %y, %choice : tensor<32x16xbf16>, tensor<32x1xi64>
}

//--- step.mlir
autopar.origin @w : tensor<16x16xbf16> in "model.onnx" at 0
func.func @main(%x: tensor<32x16xbf16>, %a: tensor<16x16xbf16> {autopar.name = "a", autopar.origin = @w, autopar.trainable = "decay"},
                %b: tensor<16x16xbf16> {autopar.name = "b", autopar.origin = @w, autopar.trainable = "decay"},
                %c: tensor<16x16xbf16> {autopar.name = "c", autopar.origin = @w, autopar.trainable = "decay"})
    -> (tensor<32x16xbf16> {autopar.name = "y"}) {
  %0 = autopar.dot_general %x, %a contract [1] x [0] {autopar.id = "fc"} : (tensor<32x16xbf16>, tensor<16x16xbf16>) -> tensor<32x16xbf16>
  %1 = autopar.dot_general %0, %b contract [1] x [0] {autopar.id = "mid"} : (tensor<32x16xbf16>, tensor<16x16xbf16>) -> tensor<32x16xbf16>
  %2 = autopar.dot_general %1, %c contract [1] x [0] {autopar.id = "head"} : (tensor<32x16xbf16>, tensor<16x16xbf16>) -> tensor<32x16xbf16>
  return %2 : tensor<32x16xbf16>
}

//--- last.mlir
autopar.origin @w : tensor<16x16xbf16> in "model.onnx" at 0
func.func @main(%x: tensor<32x16xbf16>, %w: tensor<16x16xbf16> {autopar.name = "w", autopar.origin = @w}) -> (tensor<32x16xbf16> {autopar.name = "y"}) {
  %0 = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<32x16xbf16>, tensor<16x16xbf16>) -> tensor<32x16xbf16>
  return %0 : tensor<32x16xbf16>
}
