// RUN: not autopar-opt %s --autopar-cut-stages="stages=2 cluster=presets:cpux3" 2>&1 | FileCheck %s --check-prefix=DEVICES
// RUN: not autopar-opt %s --autopar-cut-stages="stages=2 cluster=presets:cpux2 schedule=zigzag" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not autopar-opt %s --autopar-cut-stages="stages=4 meshes=2 cluster=presets:cpux2" 2>&1 | FileCheck %s --check-prefix=CHUNKS

// DEVICES: stages: 3 devices cannot be shared equally by the meshes of 2 stages
// NAME: stages: there is no schedule 'zigzag'; there are gpipe, 1f1b, interleaved, zero-bubble
// CHUNKS: stages: schedule '1f1b': takes one stage per mesh, got 4 stages on 2 meshes; 'interleaved' takes several
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
