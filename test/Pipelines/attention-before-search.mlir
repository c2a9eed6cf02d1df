// REQUIRES: autopar-compile
// RUN: autopar-compile %s --stop-after=prepare -o - | FileCheck %s
// RUN: autopar-compile %s --ranks 2 --mesh x=2 --stop-after=search -o - | FileCheck %s --check-prefix=SEARCHED

// Attention in f64, which no library runs whole, is written as products before anything is searched,
// so that the plan speaks of what will run. In f32 it stays whole.

// CHECK: autopar.dot_general {{.*}} -> tensor<2x2x8x8xf64>
// CHECK: autopar.softmax
// CHECK: autopar.attention {{.*}}f32
// CHECK-NOT: autopar.attention
// SEARCHED: autopar.softmax {{.*}}"wide/softmax"
func.func @main(%q: tensor<2x2x8x16xf64> {autopar.name = "q"}, %k: tensor<2x2x8x16xf64> {autopar.name = "k"}, %v: tensor<2x2x8x16xf64> {autopar.name = "v"},
                %n: tensor<2x2x8x16xf32> {autopar.name = "n"}) -> (tensor<2x2x8x16xf64> {autopar.name = "y"}, tensor<2x2x8x16xf32> {autopar.name = "z"}) {
  %y, %l = autopar.attention %q, %k, %v scale 1.000000e+00 {autopar.id = "wide"} : (tensor<2x2x8x16xf64>, tensor<2x2x8x16xf64>, tensor<2x2x8x16xf64>) -> (tensor<2x2x8x16xf64>, tensor<2x2x8xf64>)
  %z, %m = autopar.attention %n, %n, %n scale 1.000000e+00 {autopar.id = "narrow"} : (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>) -> (tensor<2x2x8x16xf32>, tensor<2x2x8xf32>)
  return %y, %z : tensor<2x2x8x16xf64>, tensor<2x2x8x16xf32>
}
