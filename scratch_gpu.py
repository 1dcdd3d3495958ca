import torch,time,sys,os,json
from hotlap.tasks.registry import make_task
from hotlap.tasks.batch import BatchEnv
from hotlap.config.sensors import CameraConfig
OUT=os.environ.get("OUT","/tmp")
SM=CameraConfig(width=84,height=84,colour=False)
def bench(name,B,tag="",tracks=("generated_track",),graph=True,prof=False,**kw):
    torch._dynamo.reset()
    t0=time.time()
    env=BatchEnv(make_task(name,"cuda",True,tracks=tracks,**kw),B); env.reset()
    a=(torch.rand(B,2,device="cuda")*torch.tensor([1.,.4],device="cuda")-torch.tensor([.5,0.],device="cuda"))
    for _ in range(3): env.step(a)
    torch.cuda.synchronize(); tc=time.time()-t0
    t0=time.time(); n=30
    for _ in range(n): env.step(a)
    torch.cuda.synchronize(); dt=(time.time()-t0)/n
    msg=f"{name:18s}{tag:10s} B={B:6d} compile {tc:5.1f}s step {dt*1e3:7.3f} ms  {B/dt/1e6:8.3f} M/s"
    if prof:
        from torch.profiler import profile,ProfilerActivity
        with profile(activities=[ProfilerActivity.CUDA,ProfilerActivity.CPU]) as p:
            for _ in range(5): env.step(a)
            torch.cuda.synchronize()
        
        for e in sorted(p.key_averages(),key=lambda e:-e.self_device_time_total)[:9]: print(f"   {e.self_device_time_total/5:9.1f} us  x{e.count/5:.0f}  {e.key[:90]}")
    if graph:
        st=env._state; act=a.reshape(B,1,2)
        from hotlap.tasks.task import map_tree
        static=map_tree(torch.clone,st)
        def once():
            pl,begun,obs=env._turn(static,act)
            map_tree(lambda d,s:d.copy_(s),static,begun)
            return obs
        s=torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            for _ in range(3): once()
        torch.cuda.current_stream().wait_stream(s)
        g=torch.cuda.CUDAGraph()
        with torch.cuda.graph(g): o=once()
        for _ in range(3): g.replay()
        torch.cuda.synchronize(); t0=time.time(); n=50
        for _ in range(n): g.replay()
        torch.cuda.synchronize(); dt=(time.time()-t0)/n
        msg+=f"   graph {dt*1e3:7.3f} ms {B/dt/1e6:8.3f} M/s  mem {torch.cuda.max_memory_allocated()/2**30:.2f} GiB"
        del g
    print(msg,flush=True)
    torch.cuda.empty_cache(); torch.cuda.reset_peak_memory_stats()
if __name__=="__main__":
    print(torch.cuda.get_device_name(), torch.__version__)
    import traceback
    real=bench
    def bench(*a,**k):
        try: real(*a,**k)
        except Exception as e: print("FAILED",a,str(e)[:600],str(e)[-600:],flush=True)
    bench("donkey-telemetry",4096,prof=True)
    bench("donkey-telemetry",65536,prof=True)
    bench("donkey",4096,"160x120x3",prof=True)
    bench("donkey",4096,"hills",tracks=("mountain_track",))
    bench("donkey",16384,"160x120x3")
    bench("donkey",16384,"84x84x1",camera=SM)
    bench("donkey-lidar",16384)
