; Computations of straight code go to where they are wanted: a row of the tile is finished and stored before the next one
; begins. Loads and stores stay in their order, and in a loop nothing moves.
; RUN: --late
; CHECK-LABEL: define void @kernel
define void @kernel(ptr %p, ptr %q, i32 %trips) {
entry:
; CHECK: %x0 = load
; CHECK: %x1 = load
  %x0 = load float, ptr %p
  %next = getelementptr float, ptr %p, i64 1
  %x1 = load float, ptr %next
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %more, %loop ]
  %s0 = phi float [ %x0, %entry ], [ %m0, %loop ]
  %s1 = phi float [ %x1, %entry ], [ %m1, %loop ]
; CHECK: %m0 = fmul
; CHECK-NEXT: %m1 = fmul
; CHECK-NEXT: store float %m0
  %m0 = fmul float %s0, 2.0
  %m1 = fmul float %s1, 2.0
  store float %m0, ptr %q
  %more = add i32 %i, 1
  %again = icmp slt i32 %more, %trips
  br i1 %again, label %loop, label %end
end:
; CHECK: %a0 = fmul
; CHECK-NEXT: %b0 = fadd
; CHECK-NEXT: store float %b0
; CHECK: %a1 = fmul
; CHECK-NEXT: %b1 = fadd
; CHECK: store float %b1
  %a0 = fmul float %m0, %x0
  %a1 = fmul float %m1, %x1
  %b0 = fadd float %a0, 1.0
  %b1 = fadd float %a1, 1.0
  store float %b0, ptr %p
  %to = getelementptr float, ptr %p, i64 1
  store float %b1, ptr %to
  ret void
}
