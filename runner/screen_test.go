package runner_test

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mitchellh/go-vnc"

	"github.com/cuvee-vm/cuvee/runner"
)

// glyphs is the font of a PC's text screen by its characters' pictures: 16 rows of 8 pixels.
type glyphs map[[16]byte]byte

// vgaFont finds the font in the VGA BIOS, which the guest's screen is drawn with.
func vgaFont(t *testing.T) glyphs {
	t.Helper()
	bios, err := os.ReadFile("/usr/share/seabios/vgabios-stdvga.bin")
	if err != nil {
		t.Fatal(err)
	}
	capitalA := []byte{0, 0, 0x10, 0x38, 0x6c, 0xc6, 0xc6, 0xfe, 0xc6, 0xc6, 0xc6, 0xc6, 0, 0, 0, 0}
	at := bytes.Index(bios, capitalA) - 'A'*16
	if at < 0 {
		t.Fatal("the VGA BIOS has no font")
	}
	font := make(glyphs)
	for c := byte('!'); c <= '~'; c++ {
		font[[16]byte(bios[at+int(c)*16:])] = c
	}
	return font
}

// read reads the text of a screen whose characters are 9 pixels wide, as those of a VGA text mode are.
func (g glyphs) read(size image.Rectangle, lit func(x, y int) bool) string {
	var text strings.Builder
	for top := 0; top+16 <= size.Dy(); top += 16 {
		for left := 0; left+8 <= size.Dx(); left += 9 {
			var picture [16]byte
			for y := range 16 {
				for x := range 8 {
					if lit(left+x, top+y) {
						picture[y] |= 0x80 >> x
					}
				}
			}
			if c, ok := g[picture]; ok {
				text.WriteByte(c)
			} else {
				text.WriteByte(' ')
			}
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// withScreen gives a VM a graphics card, which SeaBIOS writes to, and a VNC server that listens nowhere.
func withScreen(t *testing.T) *runner.Config {
	t.Helper()
	c := loadConfig(t, "minimal")
	c.Boot.Args = append(c.Boot.Args,
		runner.Arg{Option: "vnc", Value: "none", Keys: map[string]any{"share": "force-shared"}},
		runner.Arg{Option: "device", JSON: map[string]any{"driver": "VGA"}})
	return c
}

// A screenshot shows what the guest shows, and leaves no file.
func TestScreenshot(t *testing.T) {
	font := vgaFont(t)
	c := withScreen(t)
	m := boot(t, c)
	m.until("the screenshot has the text", func() bool {
		data, err := m.vm.Screenshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		picture, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(font.read(picture.Bounds(), func(x, y int) bool {
			r, _, _, _ := picture.At(x, y).RGBA()
			return r > 0x4000
		}), biosDone)
	})
	if left, err := filepath.Glob(filepath.Join(c.Boot.RuntimeDir, "*.png")); err != nil || len(left) > 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

// Several VNC clients see the guest's screen at the same time.
func TestVNC(t *testing.T) {
	font := vgaFont(t)
	m := boot(t, withScreen(t))
	m.shows(biosDone)
	for range 2 {
		if text := vncText(t, m, font); !strings.Contains(text, biosDone) {
			t.Errorf("the screen is\n%s", text)
		}
	}
	m.force()
	if _, err := m.wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.vm.VNC(t.Context()); err == nil {
		t.Error("a VM that has ended has a VNC client")
	}
}

// vncText connects a VNC client, which stays, and reads its first frame.
func vncText(t *testing.T, m *machine, font glyphs) string {
	t.Helper()
	conn, err := m.vm.VNC(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	messages := make(chan vnc.ServerMessage, 10)
	client, err := vnc.Client(conn, &vnc.ClientConfig{ServerMessageCh: messages})
	if err != nil {
		t.Fatal(err)
	}
	width, height := int(client.FrameBufferWidth), int(client.FrameBufferHeight)
	if err := client.FramebufferUpdateRequest(false, 0, 0, client.FrameBufferWidth, client.FrameBufferHeight); err != nil {
		t.Fatal(err)
	}
	lit := make([]bool, width*height)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			t.Fatal("there is no frame")
		case message := <-messages:
			update, ok := message.(*vnc.FramebufferUpdateMessage)
			if !ok {
				continue
			}
			for _, r := range update.Rectangles {
				raw, ok := r.Enc.(*vnc.RawEncoding)
				if !ok {
					continue
				}
				for i, color := range raw.Colors {
					x, y := int(r.X)+i%int(r.Width), int(r.Y)+i/int(r.Width)
					lit[y*width+x] = color.R > 0x40
				}
			}
			return font.read(image.Rect(0, 0, width, height), func(x, y int) bool { return lit[y*width+x] })
		}
	}
}
