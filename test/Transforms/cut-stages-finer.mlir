// RUN: autopar-opt %s --split-input-file --autopar-cut-stages="stages=2 cluster=presets:a100x2" | FileCheck %s

// Three layers of eight micro-batches in two stages: a cut in the middle of the second one is the even one, and more is sent for it
// than between layers.
// CHECK-LABEL: func.func @main
// CHECK: autopar.dot_general {{.*}} {autopar.id = "up1"}
// CHECK-NEXT: autopar.transfer %{{.*}} to 1 {autopar.id = "up1/to.1"}
module {
  func.func @main(%all: tensor<8x4096x4096xbf16>, %a: tensor<4096x16384xbf16> {autopar.donated}, %b: tensor<16384x4096xbf16> {autopar.donated}) -> tensor<8x4096x4096xbf16> {
    %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<8x4096x4096xbf16> -> tensor<4096x4096xbf16>
    %0 = autopar.dot_general %x, %a contract [1] x [0] {autopar.id = "up0"} : (tensor<4096x4096xbf16>, tensor<4096x16384xbf16>) -> tensor<4096x16384xbf16>
    %1 = autopar.dot_general %0, %b contract [1] x [0] {autopar.id = "down0"} : (tensor<4096x16384xbf16>, tensor<16384x4096xbf16>) -> tensor<4096x4096xbf16>
    %2 = autopar.dot_general %1, %a contract [1] x [0] {autopar.id = "up1"} : (tensor<4096x4096xbf16>, tensor<4096x16384xbf16>) -> tensor<4096x16384xbf16>
    %3 = autopar.dot_general %2, %b contract [1] x [0] {autopar.id = "down1"} : (tensor<4096x16384xbf16>, tensor<16384x4096xbf16>) -> tensor<4096x4096xbf16>
    %4 = autopar.dot_general %3, %a contract [1] x [0] {autopar.id = "up2"} : (tensor<4096x4096xbf16>, tensor<4096x16384xbf16>) -> tensor<4096x16384xbf16>
    %5 = autopar.dot_general %4, %b contract [1] x [0] {autopar.id = "down2"} : (tensor<4096x16384xbf16>, tensor<16384x4096xbf16>) -> tensor<4096x4096xbf16>
    %y = autopar.stack_micro_batches %5 {autopar.id = "y"} : tensor<4096x4096xbf16> -> tensor<8x4096x4096xbf16>
    return %y : tensor<8x4096x4096xbf16>
  }
}

// -----

// Two layers are even as they are.
// CHECK-LABEL: func.func @main
// CHECK: autopar.transfer %{{.*}} to 1 {autopar.id = "down0/to.1"}
module {
  func.func @main(%all: tensor<8x4096x4096xbf16>, %a: tensor<4096x16384xbf16> {autopar.donated}, %b: tensor<16384x4096xbf16> {autopar.donated}) -> tensor<8x4096x4096xbf16> {
    %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<8x4096x4096xbf16> -> tensor<4096x4096xbf16>
    %0 = autopar.dot_general %x, %a contract [1] x [0] {autopar.id = "up0"} : (tensor<4096x4096xbf16>, tensor<4096x16384xbf16>) -> tensor<4096x16384xbf16>
    %1 = autopar.dot_general %0, %b contract [1] x [0] {autopar.id = "down0"} : (tensor<4096x16384xbf16>, tensor<16384x4096xbf16>) -> tensor<4096x4096xbf16>
    %2 = autopar.dot_general %1, %a contract [1] x [0] {autopar.id = "up1"} : (tensor<4096x4096xbf16>, tensor<4096x16384xbf16>) -> tensor<4096x16384xbf16>
    %3 = autopar.dot_general %2, %b contract [1] x [0] {autopar.id = "down1"} : (tensor<4096x16384xbf16>, tensor<16384x4096xbf16>) -> tensor<4096x4096xbf16>
    %y = autopar.stack_micro_batches %3 {autopar.id = "y"} : tensor<4096x4096xbf16> -> tensor<8x4096x4096xbf16>
    return %y : tensor<8x4096x4096xbf16>
  }
}
