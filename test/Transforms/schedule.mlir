// RUN: autopar-opt %s --split-input-file --autopar-schedule | FileCheck %s

// The group is cloned per micro-batch, without its addition in the first one; what needs all of them
// comes after the last one.
// CHECK-LABEL: func.func @main
// CHECK: %[[TWICE:.*]] = autopar.binary add %{{.*}} {autopar.id = "before"}
// CHECK: autopar.slice %arg0 starts [0, 0]
// CHECK: %[[FIRST:.*]] = autopar.group %{{.*}}, %[[TWICE]] {autopar.id = "g@0"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>):
// CHECK-NEXT: %[[P:.*]] = autopar.binary mul %[[A]], %[[B]]
// CHECK-NEXT: autopar.yield %[[P]]
// CHECK: autopar.slice %arg0 starts [1, 0]
// CHECK: %[[SECOND:.*]] = autopar.group %{{.*}}, %[[TWICE]], %[[FIRST]] {autopar.id = "g@1"}
// CHECK: autopar.binary add
// CHECK: %[[NUMBERS:.*]] = autopar.insert_part %{{.*}} into %{{.*}} : tensor<2xi64> at 1
// CHECK: autopar.unary neg %[[SECOND]] {autopar.id = "after"}
func.func @main(%all: tensor<2x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xi64>) {
  %twice = autopar.binary add %w, %w {autopar.id = "before"} : tensor<4xf32>
  %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<2x4xf32> -> tensor<4xf32>
  %before = autopar.carried sum 0 : tensor<4xf32>
  %sum = autopar.group %x, %twice, %before {autopar.id = "g"} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>):
    %p = autopar.binary mul %a, %b {autopar.id = "g"} : tensor<4xf32>
    %s = autopar.binary add %p, %c : tensor<4xf32>
    autopar.yield %s : tensor<4xf32>
  }
  %total = autopar.carry 0 %sum : tensor<4xf32>
  %after = autopar.unary neg %total {autopar.id = "after"} : tensor<4xf32>
  %number = autopar.micro_batch_index {autopar.id = "i"} : tensor<i64>
  %numbers = autopar.stack_micro_batches %number {autopar.id = "numbers"} : tensor<i64> -> tensor<2xi64>
  return %after, %numbers : tensor<4xf32>, tensor<2xi64>
}

// -----

// Two stages, two micro-batches: a function for each mesh. Messages go out as soon as the value is
// there and are received before the row that reads them; what is on no stage is made on both.
// CHECK-LABEL: func.func @main.0
// CHECK-SAME: (%arg0: tensor<2x4xf32>, %arg1: tensor<4xf32> {autopar.donated, autopar.name = "w", autopar.stage = 0 : i64}) -> (tensor<4xf32> {autopar.name = "w"})
// CHECK-SAME: autopar.stage = 0
// CHECK: %[[F0:.*]] = autopar.binary mul {{.*}} {autopar.id = "f@0"}
// CHECK-NEXT: autopar.send %[[F0]] to 1 tag [[T0:[0-9]+]] {autopar.id = "f/to.1@0"}
// CHECK: %[[B0:.*]] = autopar.receive from 1 tag {{.*}} {autopar.id = "f/vjp.0/to.0@0"}
// CHECK: %[[F1:.*]] = autopar.binary mul {{.*}} {autopar.id = "f@1"}
// CHECK-NEXT: autopar.send %[[F1]] to 1 tag [[T1:[0-9]+]]
// CHECK: autopar.binary mul %[[B0]], {{.*}} {autopar.id = "w/vjp@0"}
// CHECK: autopar.binary mul %{{.*}}, {{.*}} {autopar.id = "w/vjp@1"}
// CHECK-LABEL: func.func @main.1
// CHECK-SAME: (%arg0: tensor<2x4xf32>)
// CHECK-SAME: autopar.stage = 1
// CHECK: autopar.receive from 0 tag [[T0]]
// CHECK: %[[G0:.*]] = autopar.binary add {{.*}} {autopar.id = "f/vjp.0@0"}
// CHECK-NEXT: autopar.send %[[G0]] to 0
// CHECK: return{{$}}
module {
  func.func @main(%all: tensor<2x4xf32>, %w: tensor<4xf32> {autopar.name = "w", autopar.donated, autopar.stage = 0 : i64})
      -> (tensor<4xf32> {autopar.name = "w"}) attributes {autopar.schedule = "1f1b", autopar.stage_meshes = 2 : i64} {
    %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<2x4xf32> -> tensor<4xf32>
    %f = autopar.binary mul %x, %w {autopar.id = "f"} : tensor<4xf32>
    %there = autopar.transfer %f to 1 {autopar.id = "f/to.1"} : tensor<4xf32>
    %g = autopar.binary add %there, %x {autopar.id = "f/vjp.0"} : tensor<4xf32>
    %back = autopar.transfer %g to 0 {autopar.id = "f/vjp.0/to.0"} : tensor<4xf32>
    %d = autopar.binary mul %back, %x {autopar.id = "w/vjp"} : tensor<4xf32>
    %before = autopar.carried sum 0 : tensor<4xf32>
    %sum = autopar.binary add %d, %before {autopar.id = "sum"} : tensor<4xf32>
    %total = autopar.carry 0 %sum : tensor<4xf32>
    %new = autopar.binary sub %w, %total {autopar.id = "update"} : tensor<4xf32>
    return %new : tensor<4xf32>
  }
}

// -----

// A constant that both passes read may be named after a derivative; the forward pass stays forward.
// CHECK-LABEL: func.func @main.0
// CHECK: autopar.binary mul {{.*}} {autopar.id = "f@0"}
// CHECK: autopar.binary mul {{.*}} {autopar.id = "f@1"}
// CHECK: autopar.binary mul {{.*}} {autopar.id = "f/vjp.0@0"}
module {
  func.func @main(%all: tensor<2x4xf32>, %w: tensor<4xf32> {autopar.name = "w", autopar.donated, autopar.stage = 0 : i64})
      -> (tensor<4xf32> {autopar.name = "w"}) attributes {autopar.schedule = "gpipe", autopar.stage_meshes = 2 : i64} {
    %two = autopar.constant {autopar.id = "f/vjp.0/constant"} dense<2.0> : tensor<4xf32>
    %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<2x4xf32> -> tensor<4xf32>
    %v = autopar.binary mul %w, %two {autopar.id = "v"} : tensor<4xf32>
    %f = autopar.binary mul %x, %v {autopar.id = "f"} : tensor<4xf32>
    %there = autopar.transfer %f to 1 {autopar.id = "f/to.1"} : tensor<4xf32>
    %g = autopar.binary add %there, %x {autopar.id = "loss/vjp"} : tensor<4xf32>
    %back = autopar.transfer %g to 0 {autopar.id = "loss/vjp/to.0"} : tensor<4xf32>
    %d = autopar.binary mul %back, %two {autopar.id = "f/vjp.0"} : tensor<4xf32>
    %before = autopar.carried sum 0 : tensor<4xf32>
    %sum = autopar.binary add %d, %before {autopar.id = "sum"} : tensor<4xf32>
    %total = autopar.carry 0 %sum : tensor<4xf32>
    %new = autopar.binary sub %w, %total {autopar.id = "update"} : tensor<4xf32>
    return %new : tensor<4xf32>
  }
}

// -----

// What the loss depends on is forward as well, though it is named after the derivative for which the
// same kernel makes something.
// CHECK-LABEL: func.func @main.0
// CHECK: autopar.binary mul {{.*}} {autopar.id = "f@0"}
// CHECK: autopar.binary mul {{.*}} {autopar.id = "f@1"}
// CHECK: autopar.binary mul {{.*}} {autopar.id = "f/vjp.0@0"}
module {
  func.func @main(%all: tensor<2x4xf32>, %w: tensor<4xf32> {autopar.name = "w", autopar.donated, autopar.stage = 0 : i64})
      -> (tensor<4xf32> {autopar.name = "w"}, tensor<4xf32> {autopar.evaluated, autopar.name = "loss", autopar.metric})
      attributes {autopar.schedule = "gpipe", autopar.stage_meshes = 2 : i64} {
    %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<2x4xf32> -> tensor<4xf32>
    %e = autopar.unary exp %x {autopar.id = "f/vjp.0/unary"} : tensor<4xf32>
    %v = autopar.binary mul %w, %e {autopar.id = "v"} : tensor<4xf32>
    %f = autopar.binary mul %x, %v {autopar.id = "f"} : tensor<4xf32>
    %there = autopar.transfer %f to 1 {autopar.id = "f/to.1"} : tensor<4xf32>
    %first = autopar.carried sum 0 : tensor<4xf32>
    %l = autopar.binary add %there, %first {autopar.id = "loss"} : tensor<4xf32>
    %loss = autopar.carry 0 %l : tensor<4xf32>
    %g = autopar.binary add %there, %x {autopar.id = "loss/vjp"} : tensor<4xf32>
    %back = autopar.transfer %g to 0 {autopar.id = "loss/vjp/to.0"} : tensor<4xf32>
    %d = autopar.binary mul %back, %e {autopar.id = "f/vjp.0"} : tensor<4xf32>
    %before = autopar.carried sum 1 : tensor<4xf32>
    %sum = autopar.binary add %d, %before {autopar.id = "sum"} : tensor<4xf32>
    %total = autopar.carry 1 %sum : tensor<4xf32>
    %new = autopar.binary sub %w, %total {autopar.id = "update"} : tensor<4xf32>
    return %new, %loss : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// The gradient of a weight is no part of what a stage sends, though a sum of it is sent behind all micro-batches: it comes after the message.
// CHECK-LABEL: func.func @main.1
// CHECK: autopar.binary add {{.*}} {autopar.id = "f/vjp.0@0"}
// CHECK-NEXT: autopar.send
// CHECK: autopar.binary mul {{.*}} {autopar.id = "v/vjp@0"}
// CHECK: autopar.send {{.*}}"norm/to.0"
module {
  func.func @main(%all: tensor<2x4xf32>, %w: tensor<4xf32> {autopar.name = "w", autopar.donated, autopar.stage = 0 : i64},
                  %v: tensor<4xf32> {autopar.name = "v", autopar.donated, autopar.stage = 1 : i64})
      -> (tensor<4xf32> {autopar.name = "w"}, tensor<4xf32> {autopar.name = "v"})
      attributes {autopar.schedule = "zero-bubble", autopar.stage_meshes = 2 : i64} {
    %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<2x4xf32> -> tensor<4xf32>
    %f = autopar.binary mul %x, %w {autopar.id = "f"} : tensor<4xf32>
    %there = autopar.transfer %f to 1 {autopar.id = "f/to.1"} : tensor<4xf32>
    %e = autopar.binary mul %there, %v {autopar.id = "v/vjp"} : tensor<4xf32>
    %g = autopar.binary add %there, %v {autopar.id = "f/vjp.0"} : tensor<4xf32>
    %back = autopar.transfer %g to 0 {autopar.id = "f/vjp.0/to.0"} : tensor<4xf32>
    %d = autopar.binary mul %back, %x {autopar.id = "w/vjp"} : tensor<4xf32>
    %beforeW = autopar.carried sum 0 : tensor<4xf32>
    %sumW = autopar.binary add %d, %beforeW {autopar.id = "sumw"} : tensor<4xf32>
    %totalW = autopar.carry 0 %sumW : tensor<4xf32>
    %beforeV = autopar.carried sum 1 : tensor<4xf32>
    %sumV = autopar.binary add %e, %beforeV {autopar.id = "sumv"} : tensor<4xf32>
    %totalV = autopar.carry 1 %sumV : tensor<4xf32>
    %newV = autopar.binary sub %v, %totalV {autopar.id = "updatev"} : tensor<4xf32>
    %norm = autopar.transfer %totalV to 0 {autopar.id = "norm/to.0"} : tensor<4xf32>
    %clipped = autopar.binary mul %totalW, %norm {autopar.id = "clip"} : tensor<4xf32>
    %newW = autopar.binary sub %w, %clipped {autopar.id = "update"} : tensor<4xf32>
    return %newW, %newV : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// A kernel of the backward pass that also adds to a sum finds there what the micro-batch before has
// added, though weight gradients come later.
// CHECK-LABEL: func.func @main.1(%arg0: tensor<4xf32> {autopar.donated, autopar.name = "u"
// CHECK: %[[G0:.*]]:2 = autopar.group {{.*}} {autopar.id = "f/vjp.0@0"}
// CHECK: autopar.send %[[G0]]#0
// CHECK: %[[G1:.*]]:2 = autopar.group %{{.*}}, %[[G0]]#1 {autopar.id = "f/vjp.0@1"}
// CHECK: autopar.send %[[G1]]#0
// CHECK: autopar.binary sub %{{.*}}, %[[G1]]#1 {autopar.id = "update"}
module {
  func.func @main(%all: tensor<2x4xf32>, %w: tensor<4xf32> {autopar.name = "w", autopar.donated, autopar.stage = 0 : i64},
                  %v: tensor<4xf32> {autopar.name = "u", autopar.donated, autopar.stage = 1 : i64})
      -> (tensor<4xf32> {autopar.name = "w"}, tensor<4xf32> {autopar.name = "u"})
      attributes {autopar.schedule = "zero-bubble", autopar.stage_meshes = 2 : i64} {
    %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<2x4xf32> -> tensor<4xf32>
    %f = autopar.binary mul %x, %w {autopar.id = "f"} : tensor<4xf32>
    %there = autopar.transfer %f to 1 {autopar.id = "f/to.1"} : tensor<4xf32>
    %before = autopar.carried sum 0 : tensor<4xf32>
    %g:2 = autopar.group %there, %before {autopar.id = "f/vjp.0"} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
      %c = autopar.unary neg %a {autopar.id = "f/vjp.0"} : tensor<4xf32>
      %d = autopar.binary add %c, %b : tensor<4xf32>
      autopar.yield %c, %d : tensor<4xf32>, tensor<4xf32>
    }
    %total = autopar.carry 0 %g#1 : tensor<4xf32>
    %back = autopar.transfer %g#0 to 0 {autopar.id = "f/vjp.0/to.0"} : tensor<4xf32>
    %e = autopar.binary mul %back, %x {autopar.id = "w/vjp"} : tensor<4xf32>
    %beforeW = autopar.carried sum 1 : tensor<4xf32>
    %sumW = autopar.binary add %e, %beforeW {autopar.id = "sumw"} : tensor<4xf32>
    %totalW = autopar.carry 1 %sumW : tensor<4xf32>
    %newV = autopar.binary sub %v, %total {autopar.id = "update"} : tensor<4xf32>
    %newW = autopar.binary sub %w, %totalW {autopar.id = "updatew"} : tensor<4xf32>
    return %newW, %newV : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// What adds up on no stage is made at the end, where it is read. "n" of the second micro-batch asks for the sum that the first one
// hands on; who asks for the sum of all finds that made, once each.
// CHECK-LABEL: func.func @main.0
// CHECK: %[[G0:.*]]:2 = autopar.group {{.*}}"g@0"
// CHECK: %[[G1:.*]]:2 = autopar.group {{.*}}%[[G0]]#1 {autopar.id = "g@1"}
// CHECK: %[[G2:.*]]:2 = autopar.group {{.*}}%[[G1]]#1 {autopar.id = "g@2"}
// CHECK: autopar.unary neg %[[G2]]#1 {autopar.id = "after"}
func.func @main(%all: tensor<3x4xf32>, %w: tensor<4xf32> {autopar.name = "w", autopar.donated, autopar.stage = 0 : i64})
    -> (tensor<3x4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {autopar.schedule = "1f1b", autopar.stage_meshes = 2 : i64} {
  %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<3x4xf32> -> tensor<4xf32>
  %before = autopar.carried sum 0 : tensor<4xf32>
  %n, %sum = autopar.group %x, %before {autopar.id = "g"} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>, %c: tensor<4xf32>):
    %p = autopar.unary neg %a {autopar.id = "g"} : tensor<4xf32>
    %s = autopar.binary add %p, %c : tensor<4xf32>
    autopar.yield %p, %s : tensor<4xf32>, tensor<4xf32>
  }
  %total = autopar.carry 0 %sum : tensor<4xf32>
  %numbers = autopar.stack_micro_batches %n {autopar.id = "ns"} : tensor<4xf32> -> tensor<3x4xf32>
  %after = autopar.unary neg %total {autopar.id = "after"} : tensor<4xf32>
  %there = autopar.transfer %w to 1 {autopar.id = "there"} : tensor<4xf32>
  %other = autopar.unary exp %there {autopar.id = "other"} : tensor<4xf32>
  return %numbers, %after, %other : tensor<3x4xf32>, tensor<4xf32>, tensor<4xf32>
}
