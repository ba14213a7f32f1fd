; In a loop the end of one trip comes before the beginning of the next: a buffer that is written in each trip needs a
; barrier on both sides; one that is written once before the loop none inside.
; RUN: --shared
declare ptr addrspace(3) @kiln.shared.buffer(i32, i64)

; Both are alive in the loop.
; CHECK: bytes: 256
; CHECK-LABEL: define void @kernel
define void @kernel(i32 %trips) {
entry:
  %once = call ptr addrspace(3) @kiln.shared.buffer(i32 0, i64 128)
; CHECK: store i32 7
; CHECK-NEXT: br label %loop
  store i32 7, ptr addrspace(3) %once, align 4, !kiln.shared !0
  br label %loop
loop:
; CHECK: loop:
; CHECK-NEXT: %i = phi
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %each = call ptr addrspace(3) @kiln.shared.buffer(i32 1, i64 128)
; What others read in the trip before.
; CHECK-NEXT: call void @barrier()
; CHECK-NEXT: store i32 %i
  store i32 %i, ptr addrspace(3) %each, align 4, !kiln.shared !2
; CHECK-NEXT: call void @barrier()
; CHECK-NEXT: load i32
; CHECK-NEXT: load i32
; CHECK-NEXT: %next
  %x = load i32, ptr addrspace(3) %each, align 4, !kiln.shared !3
  %y = load i32, ptr addrspace(3) %once, align 4, !kiln.shared !1
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %trips
  br i1 %more, label %loop, label %end
end:
; CHECK-NOT: call void @barrier()
  ret void
}

!0 = !{i32 0, i32 1, i32 0}
!1 = !{i32 0, i32 0, i32 1}
!2 = !{i32 1, i32 1, i32 0}
!3 = !{i32 1, i32 0, i32 1}
