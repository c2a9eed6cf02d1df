// RUN: autopar-opt %s --autopar-search="cluster=presets:cpux4 mesh=e=2,t=2 constraints='expert-axis=e*t,weight-axis=t'" | FileCheck %s --check-prefix=BOTH
// RUN: autopar-opt %s --autopar-search="cluster=presets:cpux4 mesh=e=2,t=2 constraints='expert-axis=e,weight-axis=t'" | FileCheck %s --check-prefix=APART
// RUN: autopar-opt %s --autopar-search="cluster=presets:cpux2 mesh=t=2 constraints='expert-axis=t,weight-axis=t'" | FileCheck %s --check-prefix=TENSOR
// RUN: not autopar-opt %s --autopar-search="cluster=presets:cpux4 mesh=a=2,b=2 constraints='expert-axis=a*b'" 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: not autopar-opt %s --autopar-search="cluster=presets:cpux4 mesh=a=2,b=2 constraints='expert-axis=b*a,batch-axis=a'" 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: not autopar-opt %s --autopar-search="cluster=presets:cpux4 mesh=a=2,b=2 constraints='expert-axis=a*c,weight-axis=b'" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not autopar-opt %s --autopar-search="cluster=presets:cpux8 mesh=e=2,t=4 constraints='expert-axis=e*t,weight-axis=t'" 2>&1 | FileCheck %s --check-prefix=FEW

// Where the weight axis is an expert axis too, each expert is whole and all other products are split as ever.

// BOTH: \22dense\22: {{\[\[}}\22e\22],[\22t\22],[]],
// BOTH-SAME: \22experts\22: {{\[\[}}\22e\22,\22t\22],[],[],[]]
// BOTH-SAME: \22w\22: {{\[\[}}\22e\22,\22t\22],[],[]],
// APART: \22experts\22: {{\[\[}}\22e\22],[],[],[\22t\22]]
// APART-SAME: \22w\22: {{\[\[}}\22e\22],[\22t\22],[]],
// TENSOR: \22dense\22: {{\[\[}}],[\22t\22],[]],
// TENSOR-SAME: \22experts\22: {{\[\[}}\22t\22],[],[],[]]
// TWO: error: no plan found: constraints "expert-axis=a*b" at character 1: has axes "a" and "b" of its own; expected one, and the weight-axis beside it
// BATCH: at character 1: is the batch axis too
// NONE: at character 1: the mesh has no axis "c"; its axes are a, b
// FEW: at character 1: no product with a parameter per expert can be split over axes "e*t"
autopar.origin @u : tensor<4x4xf32>
autopar.origin @w : tensor<4x4x4xf32>
func.func @main(%x: tensor<8x4xf32> {autopar.name = "x"}, %u: tensor<4x4xf32> {autopar.name = "u", autopar.origin = @u}, %w: tensor<4x4x4xf32> {autopar.name = "w", autopar.origin = @w}) -> tensor<4x8x4xf32> {
  %0 = autopar.dot_general %x, %u contract [1] x [0] {autopar.id = "dense"} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1 = autopar.broadcast %0 dims [1, 2] {autopar.id = "all"} : tensor<8x4xf32> -> tensor<4x8x4xf32>
  %2 = autopar.dot_general %1, %w batch [0] x [0] contract [2] x [1] {autopar.id = "experts"} : (tensor<4x8x4xf32>, tensor<4x4x4xf32>) -> tensor<4x8x4xf32>
  return %2 : tensor<4x8x4xf32>
}
