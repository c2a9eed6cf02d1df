// REQUIRES: autopar-compile, autopar-translate
// RUN: sed 's/ROWS/16/g' %s > %t.16.mlir && sed 's/ROWS/32/g' %s > %t.32.mlir
// RUN: autopar-compile %t.16.mlir -o %t.16.bin --quiet --target cuda && autopar-translate --dump %t.16.bin | FileCheck %s
// RUN: autopar-compile %t.32.mlir -o %t.32.bin --quiet --target cuda && autopar-translate --dump %t.32.bin > %t.32.txt
// RUN: autopar-translate --dump %t.16.bin | grep "^  made" > %t.16.made && grep "^  made" %t.32.txt | diff %t.16.made -
// RUN: autopar-compile %t.32.mlir --beside %t.16.bin -o %t.beside.bin --target cuda 2>&1 | FileCheck %s --check-prefix=BESIDE
// RUN: sed 's/exp/tanh/' %t.32.mlir > %t.other.mlir
// RUN: autopar-compile %t.other.mlir --beside %t.16.bin -o %t.beside.bin --target cuda --quiet 2>&1 | FileCheck %s --check-prefix=OTHER

// What load makes of parameters is told by how, whatever the extents of inputs; what a step reads as
// it lies in the model is not made.

// CHECK: made %{{.*}}grown{{.*}} recipe {{[0-9a-f]+}} of ["w"]
// CHECK-NOT: made
// BESIDE: of it held together with
// OTHER: warning: {{.*}}--beside {{.*}}: nothing is held together with it: expected a program of the same model
autopar.origin @w : tensor<64x128xf32>
func.func @main(%x: tensor<ROWSx64xf32> {autopar.name = "x"}, %w: tensor<64x128xf32> {autopar.name = "w", autopar.origin = @w}) -> (tensor<ROWSx128xf32> {autopar.name = "y"}) {
  %grown = autopar.unary exp %w {autopar.id = "grown"} : tensor<64x128xf32>
  %y = autopar.dot_general %x, %grown contract [1] x [0] {autopar.id = "fc"} : (tensor<ROWSx64xf32>, tensor<64x128xf32>) -> tensor<ROWSx128xf32>
  return %y : tensor<ROWSx128xf32>
}
