// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s -o %t.bin --quiet --target-cpu x86-64-v3
// RUN: autopar-translate --dump %t.bin | FileCheck %s
// RUN: autopar-compile %s --stop-after=plan-memory -o %t.exec.mlir
// RUN: autopar-translate --exec-to-artifact %t.exec.mlir -o %t.again.bin
// RUN: autopar-translate --dump %t.again.bin | FileCheck %s --check-prefix=AGAIN
// RUN: not autopar-compile %s -o %t.small.bin --memory-limit 1K 2>&1 | FileCheck %s --check-prefix=LIMIT
// RUN: not test -e %t.small.bin
// RUN: rm -f %t.null && ln -s /dev/null %t.null && autopar-compile %s --stop-after=plan-memory -o %t.null
// RUN: autopar-compile %s -o %t.null --quiet && test -c %t.null
// RUN: autopar-compile %s --ranks 2 --plan-only -o %t.null --quiet && test -c %t.null

// The whole way from MLIR text; the artifact prints back; a plan over the limit leaves nothing
// behind; a device is written to, not replaced.

// CHECK: x86-64-v3, 1 ranks, 1 classes
// CHECK: program @class0
// CHECK: buffer %x : 16x16xf32
// AGAIN: program @class0
// LIMIT: over the limit of 1024 bytes
func.func @main(%x: tensor<16x16xf32> {autopar.name = "x"}, %w: tensor<16x16xf32> {autopar.name = "w"}) -> (tensor<16x16xf32> {autopar.name = "y"}) {
  %h = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %y = autopar.unary tanh %h {autopar.id = "act"} : tensor<16x16xf32>
  return %y : tensor<16x16xf32>
}
