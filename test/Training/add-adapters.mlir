// RUN: autopar-opt %s --autopar-add-adapters="adapters=lora(rank=2,alpha=4)" 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=SAID < %t
// RUN: autopar-opt %s --autopar-add-adapters="adapt=fc.weight adapters=lora(rank=2) drawn=false" 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: autopar-opt %s --autopar-add-adapters="adapt=head*,fc*" --autopar-choose-trainable 2>&1 | FileCheck %s --check-prefix=ALONE
// RUN: autopar-opt %s --autopar-add-adapters --autopar-choose-trainable="train-only=bias" 2>&1 | FileCheck %s --check-prefix=BESIDE
// RUN: autopar-opt %s --autopar-add-adapters --autopar-choose-trainable="freeze=fc.lora*" 2>&1 | FileCheck %s --check-prefix=FREEZE

// One pair for both products with fc; one for the matrix of two parameters; none for the last product.

// CHECK-DAG: autopar.origin @fc.lora_A.weight : tensor<2x8xf32> {autopar.drawn = "kaiming_uniform(0.57735026918962576)"}
// CHECK-DAG: autopar.origin @fc.lora_B.weight : tensor<8x2xf32> {autopar.drawn = "zeros"}
// CHECK-DAG: autopar.origin @low.lora_A.weight : tensor<2x8xf32>
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<2x8xf32> {autopar.adapter, autopar.name = "fc.lora_A.weight", autopar.origin = @fc.lora_A.weight}
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<8x2xf32> {autopar.adapter, autopar.name = "fc.lora_B.weight", autopar.origin = @fc.lora_B.weight}
// CHECK-SAME: %[[NARROW:[a-z0-9]+]]: tensor<2x8xf32> {autopar.adapter, autopar.name = "low.lora_A.weight"
// CHECK: %[[Y:[a-z0-9]+]] = autopar.dot_general %[[X:[a-z0-9]+]], %[[W:[a-z0-9]+]] contract [1] x [1] {autopar.id = "fc"}
// CHECK-NEXT: %[[L:[a-z0-9]+]] = autopar.dot_general %[[X]], %[[A]] contract [1] x [1] {autopar.id = "fc/lora/dot_general"} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x2xf32>
// CHECK-NEXT: %[[C:[a-z0-9]+]] = autopar.constant {autopar.id = "fc/lora/constant"} dense<2.000000e+00>
// CHECK-NEXT: %[[S:[a-z0-9]+]] = autopar.binary mul %[[L]], %[[C]]
// CHECK-NEXT: %[[H:[a-z0-9]+]] = autopar.dot_general %[[S]], %[[B]] contract [1] x [1] {autopar.id = "fc/lora/dot_general.1"}
// CHECK-NEXT: %[[Z:[a-z0-9]+]] = autopar.binary add %[[Y]], %[[H]]
// CHECK-NEXT: autopar.unary tanh %[[Z]]
// CHECK: autopar.dot_general %{{.*}}, %[[A]] contract
// CHECK: %[[F16:[a-z0-9]+]] = autopar.cast %[[NARROW]] {autopar.id = "low/lora/cast"} : tensor<2x8xf32> -> tensor<2x8xf16>
// CHECK: autopar.dot_general %{{.*}}, %[[F16]] contract [1] x [1]
// CHECK: autopar.dot_general {{.*}} {autopar.id = "head"}
// CHECK-NOT: lora

// SAID: remark: 2 matrices adapted by rank 2, 64 numbers

// ONE: remark: 1 matrix adapted by rank 2, 32 numbers
// ONE: autopar.origin @fc.lora_A.weight : tensor<2x8xf32>{{$}}
// ONE: dense<1.000000e+00>

// ALONE: remark: trains 4 parameters
// ALONE-NEXT: not an adapter: fc.weight, scales, low.weight_Q4, head.weight, bias
// ALONE-NEXT: trained: fc.lora_A.weight, fc.lora_B.weight, head.lora_A.weight, head.lora_B.weight

// BESIDE: not among those to be trained: fc.weight
// BESIDE: trained without weight decay: bias
// BESIDE: trained: fc.lora_A.weight, fc.lora_B.weight, low.lora_A.weight, low.lora_B.weight

// FREEZE-DAG: trained: low.lora_A.weight, low.lora_B.weight
// FREEZE-DAG: frozen by name: fc.lora_A.weight, fc.lora_B.weight

autopar.origin @fc.weight : tensor<8x8xf32>
autopar.origin @scales : tensor<8xf16>
autopar.origin @low.weight_Q4 : tensor<8x8xf16>
autopar.origin @head.weight : tensor<8x3xf32>
autopar.origin @bias : tensor<8xf32>
func.func @main(%x: tensor<4x8xf32> {autopar.name = "x"},
                %fc: tensor<8x8xf32> {autopar.name = "fc.weight", autopar.origin = @fc.weight},
                %scales: tensor<8xf16> {autopar.name = "scales", autopar.origin = @scales},
                %low: tensor<8x8xf16> {autopar.name = "low.weight_Q4", autopar.origin = @low.weight_Q4},
                %head: tensor<8x3xf32> {autopar.name = "head.weight", autopar.origin = @head.weight},
                %bias: tensor<8xf32> {autopar.name = "bias", autopar.origin = @bias}) -> (tensor<4x3xf32> {autopar.name = "y"}) {
  %0 = autopar.dot_general %x, %fc contract [1] x [1] {autopar.id = "fc"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = autopar.unary tanh %0 : tensor<4x8xf32>
  %2 = autopar.dot_general %1, %fc contract [1] x [1] {autopar.id = "again"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = autopar.broadcast %bias dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  %4 = autopar.binary add %2, %3 : tensor<4x8xf32>
  %5 = autopar.cast %4 : tensor<4x8xf32> -> tensor<4x8xf16>
  %6 = autopar.broadcast %scales dims [0] : tensor<8xf16> -> tensor<8x8xf16>
  %one = autopar.constant dense<1.0> : tensor<8xf16>
  %ones = autopar.broadcast %one dims [0] : tensor<8xf16> -> tensor<8x8xf16>
  %11 = autopar.binary sub %low, %ones : tensor<8x8xf16>
  %10 = autopar.binary mul %11, %6 : tensor<8x8xf16>
  %7 = autopar.dot_general %5, %10 contract [1] x [0] {autopar.id = "low"} : (tensor<4x8xf16>, tensor<8x8xf16>) -> tensor<4x8xf16>
  %8 = autopar.cast %7 : tensor<4x8xf16> -> tensor<4x8xf32>
  %9 = autopar.dot_general %8, %head contract [1] x [0] {autopar.id = "head"} : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  return %9 : tensor<4x3xf32>
}
