// Command device-plugin offers a device of this machine to the pods of a node that runs on it, as a device plugin in a pod would:
//
//	device-plugin -dir NODE/kubelet/device-plugins -resource devices.kubevirt.io/tun -device /dev/net/tun
//
// It says "ready" when kubelet knows of it, and serves until it gets SIGINT or SIGTERM, or who has started it is gone. It is for tests: a cluster
// takes one of those that docs/components.md names.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for parent := os.Getppid(); os.Getppid() == parent; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "device-plugin:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("device-plugin", flag.ContinueOnError)
	dir := flags.String("dir", deviceplugin.DevicePluginPath, "kubelet's directory of device plugins")
	resource := flags.String("resource", "", "the name that pods ask for")
	device := flags.String("device", "", "the device that they get")
	count := flags.Int("count", 100, "how many pods may have it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *resource == "" || *device == "" {
		return errors.New("-resource and -device are missing")
	}
	// The path of a socket must not be long.
	if err := os.Chdir(*dir); err != nil {
		return err
	}
	socket := strings.ReplaceAll(*resource, "/", "-") + ".sock"
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	deviceplugin.RegisterDevicePluginServer(server, &plugin{device: *device, count: *count})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer server.Stop()
	if err := register(ctx, socket, *resource); err != nil {
		return fmt.Errorf("register at kubelet in %s: %w", *dir, err)
	}
	fmt.Fprintln(out, "ready")
	select {
	case <-ctx.Done():
		return nil
	case err := <-served:
		return err
	}
}

// register tells kubelet at which socket a resource is.
func register(ctx context.Context, socket, resource string) error {
	conn, err := grpc.NewClient("unix:"+filepath.Base(deviceplugin.KubeletSocket), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = deviceplugin.NewRegistrationClient(conn).Register(ctx, &deviceplugin.RegisterRequest{
		Version: deviceplugin.Version, Endpoint: socket, ResourceName: resource,
	})
	return err
}

// plugin is one device, for as many pods as there may be.
type plugin struct {
	deviceplugin.UnimplementedDevicePluginServer
	device string
	count  int
}

func (p *plugin) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{}, nil
}

// ListAndWatch says once what there is: it does not change.
func (p *plugin) ListAndWatch(_ *deviceplugin.Empty, stream grpc.ServerStreamingServer[deviceplugin.ListAndWatchResponse]) error {
	list := &deviceplugin.ListAndWatchResponse{}
	for i := range p.count {
		list.Devices = append(list.Devices, &deviceplugin.Device{ID: fmt.Sprint(i), Health: deviceplugin.Healthy})
	}
	if err := stream.Send(list); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate says which device a container gets.
func (p *plugin) Allocate(_ context.Context, request *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	response := &deviceplugin.AllocateResponse{}
	for range request.GetContainerRequests() {
		response.ContainerResponses = append(response.ContainerResponses, &deviceplugin.ContainerAllocateResponse{
			Devices: []*deviceplugin.DeviceSpec{{ContainerPath: p.device, HostPath: p.device, Permissions: "rw"}},
		})
	}
	return response, nil
}
