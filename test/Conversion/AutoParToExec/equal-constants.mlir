// RUN: autopar-opt %s --autopar-to-exec | FileCheck %s

// A large tensor of one number is filled by a kernel where it is used; it takes no room in the artifact.

// CHECK-NOT: exec.port parameter "constant
// CHECK: exec.entry @step
// CHECK: exec.launch @{{.*}}() -> (%[[ZERO:[0-9]+]])
// CHECK: exec.launch @{{.*}}(%[[ZERO]], %{{.*}}, %{{.*}}) -> (%{{.*}})
func.func @main(%i: tensor<8x1xi64> {autopar.name = "i"}, %u: tensor<8x64xf32> {autopar.name = "u"}) -> (tensor<1000x64xf32> {autopar.name = "y"}) {
  %z = autopar.constant {autopar.id = "zero"} dense<0.0> : tensor<1000x64xf32>
  %y = autopar.scatter add %z, %i, %u {autopar.id = "scatter"} : (tensor<1000x64xf32>, tensor<8x1xi64>, tensor<8x64xf32>) -> tensor<1000x64xf32>
  return %y : tensor<1000x64xf32>
}
