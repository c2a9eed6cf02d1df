// RUN: autopar-opt %s --autopar-search="cluster=presets:cpux4 mesh=data=2,tensor=2" --autopar-annotate | FileCheck %s

// CHECK: autopar.mesh @mesh ["data" = 2, "tensor" = 2]
// CHECK: func.func @main(%{{.*}}: tensor<512x512xf32> {autopar.name = "x", autopar.sharding = #autopar.sharding<@mesh, [{{.*}}]>}
func.func @main(%x: tensor<512x512xf32> {autopar.name = "x"}, %w: tensor<512x512xf32> {autopar.name = "w"}) -> (tensor<512x512xf32> {autopar.name = "y"}) {
  %y = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %y : tensor<512x512xf32>
}
