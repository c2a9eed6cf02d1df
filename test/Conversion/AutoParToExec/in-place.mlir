// RUN: autopar-opt %s --autopar-to-exec | FileCheck %s

// A scatter changes its first operand where it lies, if the step computed it and nothing reads it later;
// otherwise, and where it is a parameter, the kernel copies it first.

// CHECK: exec.port input "x" %[[X:[0-9]+]]
// CHECK: exec.entry @step
// CHECK: exec.launch @[[NEG:.*]](%[[X]]) -> (%[[A:[0-9]+]])
// CHECK: exec.launch @[[OVER:.*]](%[[A]], %[[IDS:[0-9]+]], %[[G:[0-9]+]]) -> (%[[A]])
// CHECK: exec.launch @{{.*}}(%[[X]]) -> (%[[B:[0-9]+]])
// CHECK: exec.launch @[[COPY:.*]](%[[B]], %[[IDS]], %[[G]]) -> (%[[C:[0-9]+]])
// CHECK: exec.launch @{{.*}}(%[[B]]) -> (%{{.*}})
// CHECK: exec.launch @[[COPY]](%[[X]], %[[IDS]], %[[G]]) -> (%{{.*}})

// CHECK: func.func @[[OVER]](
// CHECK: memref.store %{{.*}}, %arg0
// CHECK-NOT: memref.store
// CHECK: return
// CHECK: func.func @[[COPY]](
// CHECK: memref.store %{{.*}}, %arg3
func.func @main(%x: tensor<9x4xf32> {autopar.name = "x"}, %ids: tensor<3x1xi64> {autopar.name = "ids"}, %g: tensor<3x4xf32> {autopar.name = "g"})
    -> (tensor<9x4xf32> {autopar.name = "y"}, tensor<9x4xf32> {autopar.name = "z"}, tensor<9x4xf32> {autopar.name = "u"}, tensor<9x4xf32> {autopar.name = "w"}) {
  %a = autopar.unary neg %x {autopar.id = "a"} : tensor<9x4xf32>
  %sa = autopar.scatter add %a, %ids, %g {autopar.id = "sa"} : (tensor<9x4xf32>, tensor<3x1xi64>, tensor<3x4xf32>) -> tensor<9x4xf32>
  %b = autopar.unary exp %x {autopar.id = "b"} : tensor<9x4xf32>
  %sb = autopar.scatter add %b, %ids, %g {autopar.id = "sb"} : (tensor<9x4xf32>, tensor<3x1xi64>, tensor<3x4xf32>) -> tensor<9x4xf32>
  %late = autopar.unary sin %b {autopar.id = "late"} : tensor<9x4xf32>
  %sx = autopar.scatter add %x, %ids, %g {autopar.id = "sx"} : (tensor<9x4xf32>, tensor<3x1xi64>, tensor<3x4xf32>) -> tensor<9x4xf32>
  return %sa, %sb, %late, %sx : tensor<9x4xf32>, tensor<9x4xf32>, tensor<9x4xf32>, tensor<9x4xf32>
}
