// RUN: autopar-opt %s --split-input-file --autopar-insert-recompute="target=cuda" | FileCheck %s

// What is named waits in host memory: readers in the backward pass read what is fetched, looks at it follow, and what is
// computed again is computed from it.
// CHECK-LABEL: func.func @main
// CHECK-NOT: autopar.offload_activations
// CHECK: %[[H:.*]] = autopar.unary exp %arg0 {autopar.id = "h"}
// CHECK-NEXT: %[[A:.*]] = autopar.unary tanh %[[H]] {autopar.id = "a"}
// CHECK-NEXT: %[[R:.*]] = autopar.reshape %[[A]]
// CHECK-NEXT: %[[Y:.*]] = autopar.unary neg %[[R]] {autopar.id = "y"}
// CHECK-NEXT: %[[S:.*]] = autopar.store_on_host %[[H]] {autopar.id = "h/offload"} : tensor<8xf32>
// CHECK-NEXT: %[[D:.*]] = autopar.unary cos %[[Y]] {autopar.id = "y/vjp.0"}
// CHECK-NEXT: %[[H2:.*]] = autopar.fetch_from_host %[[S]] after %[[D]] {autopar.id = "h/fetch"} : tensor<8xf32>, tensor<2x4xf32>
// CHECK-NEXT: %[[A2:.*]] = autopar.unary tanh %[[H2]] {autopar.id = "a/recompute"}
// CHECK-NEXT: %[[R2:.*]] = autopar.reshape %[[A2]]
// CHECK-NEXT: autopar.binary mul %[[D]], %[[R2]] {autopar.id = "r/vjp.0"}
func.func @main(%x: tensor<8xf32>) -> (tensor<2x4xf32>, tensor<8xf32>) attributes {autopar.recompute = ["a"], autopar.offload_activations = ["h"]} {
  %h = autopar.unary exp %x {autopar.id = "h"} : tensor<8xf32>
  %a = autopar.unary tanh %h {autopar.id = "a"} : tensor<8xf32>
  %r = autopar.reshape %a : tensor<8xf32> -> tensor<2x4xf32>
  %y = autopar.unary neg %r {autopar.id = "y"} : tensor<2x4xf32>
  %d = autopar.unary cos %y {autopar.id = "y/vjp.0"} : tensor<2x4xf32>
  %g = autopar.binary mul %d, %r {autopar.id = "r/vjp.0"} : tensor<2x4xf32>
  %s = autopar.reshape %g : tensor<2x4xf32> -> tensor<8xf32>
  %b = autopar.binary mul %s, %h {autopar.id = "a/vjp.0"} : tensor<8xf32>
  return %y, %b : tensor<2x4xf32>, tensor<8xf32>
}

// -----

// A store stands two stored values further on, the last ones where the backward pass begins; a fetch stands two fetches
// ahead, and waits for what the reader there waits for.
// CHECK-LABEL: func.func @order
// CHECK: "a"
// CHECK-NEXT: "b"
// CHECK-NEXT: "a/offload"
// CHECK-NEXT: "c"
// CHECK-NEXT: "b/offload"
// CHECK-NEXT: "d"
// CHECK-NEXT: "loss"
// CHECK-DAG: "c/offload"
// CHECK-DAG: "d/offload"
// CHECK: %[[L:.*]] = autopar.unary neg {{.*}}"loss/vjp.0"
// CHECK-NEXT: autopar.fetch_from_host {{.*}} after %[[L]] {autopar.id = "d/fetch"}
// CHECK-NEXT: autopar.fetch_from_host {{.*}} after %[[L]] {autopar.id = "b/fetch"}
// CHECK-NEXT: %[[D:.*]] = autopar.binary mul {{.*}}"d/vjp.0"
// CHECK-NEXT: autopar.fetch_from_host {{.*}} after %[[D]] {autopar.id = "c/fetch"}
// CHECK-NEXT: autopar.fetch_from_host {{.*}} after %[[D]] {autopar.id = "a/fetch"}
// CHECK-NEXT: "c/vjp.0"
// CHECK-NEXT: "b/vjp.0"
// CHECK-NEXT: "a/vjp.0"
func.func @order(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {autopar.offload_activations = ["a", "b", "c", "d"]} {
  %a = autopar.unary exp %x {autopar.id = "a"} : tensor<8xf32>
  %b = autopar.unary exp %a {autopar.id = "b"} : tensor<8xf32>
  %c = autopar.unary exp %b {autopar.id = "c"} : tensor<8xf32>
  %d = autopar.unary exp %c {autopar.id = "d"} : tensor<8xf32>
  %l = autopar.unary tanh %d {autopar.id = "loss"} : tensor<8xf32>
  %0 = autopar.unary neg %l {autopar.id = "loss/vjp.0"} : tensor<8xf32>
  %1 = autopar.binary mul %0, %d {autopar.id = "d/vjp.0"} : tensor<8xf32>
  %2 = autopar.binary mul %1, %c {autopar.id = "c/vjp.0"} : tensor<8xf32>
  %3 = autopar.binary mul %2, %b {autopar.id = "b/vjp.0"} : tensor<8xf32>
  %4 = autopar.binary mul %3, %a {autopar.id = "a/vjp.0"} : tensor<8xf32>
  return %l, %4 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Of several results only those are stored that are named and that the backward pass reads.
// CHECK-LABEL: func.func @group
// CHECK: %[[G:.*]]:2 = autopar.group
// CHECK: autopar.store_on_host %[[G]]#1 {autopar.id = "second/offload"}
// CHECK-NOT: autopar.store_on_host
// CHECK: autopar.fetch_from_host {{.*}} {autopar.id = "second/fetch"}
func.func @group(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {autopar.offload_activations = ["second"]} {
  %0:2 = autopar.group %x {autopar.id = "first"} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%a: tensor<8xf32>):
    %1 = autopar.unary exp %a {autopar.id = "first"} : tensor<8xf32>
    %2 = autopar.unary tanh %1 {autopar.id = "second"} : tensor<8xf32>
    autopar.yield %1, %2 : tensor<8xf32>, tensor<8xf32>
  }
  %d = autopar.unary cos %x {autopar.id = "loss/vjp.0"} : tensor<8xf32>
  %g = autopar.binary mul %d, %0#1 {autopar.id = "second/vjp.0"} : tensor<8xf32>
  return %0#0, %g : tensor<8xf32>, tensor<8xf32>
}

// -----

// What every micro-batch reads, and what is read once for all of them, are fetched apart: the first fetch waits for a
// gradient of its micro-batch.
// CHECK-LABEL: func.func @micro_batches
// CHECK: %[[S:.*]] = autopar.store_on_host {{.*}} {autopar.id = "scale/offload"}
// CHECK: %[[D:.*]] = autopar.unary cos {{.*}}"loss/vjp.0"
// CHECK-NEXT: %[[EACH:.*]] = autopar.fetch_from_host %[[S]] after %[[D]] {autopar.id = "scale/fetch"}
// CHECK-NEXT: autopar.binary mul %[[D]], %[[EACH]] {autopar.id = "x/vjp.0"}
// CHECK: %[[SUM:.*]] = autopar.accumulate sum {{.*}}"y/vjp.0/accumulate"
// CHECK: %[[ONCE:.*]] = autopar.fetch_from_host %[[S]] after %[[SUM]] {autopar.id = "scale/fetch"}
// CHECK-NEXT: autopar.binary mul %[[SUM]], %[[ONCE]] {autopar.id = "w/vjp.0"}
func.func @micro_batches(%all: tensor<2x8xf32>, %w: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {autopar.offload_activations = ["scale"]} {
  %scale = autopar.unary exp %w {autopar.id = "scale"} : tensor<8xf32>
  %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<2x8xf32> -> tensor<8xf32>
  %y = autopar.binary mul %x, %scale {autopar.id = "y"} : tensor<8xf32>
  %d = autopar.unary cos %y {autopar.id = "loss/vjp.0"} : tensor<8xf32>
  %dx = autopar.binary mul %d, %scale {autopar.id = "x/vjp.0"} : tensor<8xf32>
  %a = autopar.accumulate sum %dx {autopar.id = "x/vjp.0/accumulate"} : tensor<8xf32>
  %sum = autopar.accumulate sum %d {autopar.id = "y/vjp.0/accumulate"} : tensor<8xf32>
  %dw = autopar.binary mul %sum, %scale {autopar.id = "w/vjp.0"} : tensor<8xf32>
  return %a, %dw : tensor<8xf32>, tensor<8xf32>
}
